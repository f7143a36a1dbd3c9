import type { JournalInput, JournalWriter } from '../../journal/journal.ts';
import type { EventReason, EventRecorder } from './event-recorder.ts';

/** Whom something happened to. A whole pod, or one container of it. */
export interface StoryPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export interface StoryLine {
  readonly pod: StoryPod;
  readonly container?: string;
  readonly containerId?: string;
  readonly sandboxId?: string;
  readonly image?: string;
  /** The journal's machine-readable name of the step. */
  readonly what: string;
  readonly message: string;
  readonly why?: string;
  readonly outcome?: JournalInput['outcome'];
  readonly durationMs?: number;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Tell the API's clients too. Its message is the line's, unless it has its own. */
  readonly event?: { readonly type: 'Normal' | 'Warning'; readonly reason: EventReason; readonly message?: string };
}

/** What the agent does and why, for the journal and, where people look for it, as a Kubernetes Event. */
export class Story {
  readonly #journal: JournalWriter;
  readonly #events: Pick<EventRecorder, 'record'>;

  constructor(journal: JournalWriter, events: Pick<EventRecorder, 'record'>) {
    this.#journal = journal;
    this.#events = events;
  }

  tell(line: StoryLine): void {
    const { pod, container, containerId, sandboxId, image, event, ...entry } = line;
    this.#journal.record({
      ...entry,
      subject: {
        podUid: pod.uid,
        podNamespace: pod.namespace,
        podName: pod.name,
        ...(container === undefined ? {} : { containerName: container }),
        ...(containerId === undefined ? {} : { containerId }),
        ...(sandboxId === undefined ? {} : { sandboxId }),
        ...(image === undefined ? {} : { image }),
      },
    });
    if (event === undefined) return;
    this.#events.record({
      about: {
        apiVersion: 'v1',
        kind: 'Pod',
        name: pod.name,
        namespace: pod.namespace,
        uid: pod.uid,
        ...(container === undefined ? {} : { fieldPath: `spec.containers{${container}}` }),
      },
      type: event.type,
      reason: event.reason,
      message: event.message ?? line.message,
    });
  }
}
