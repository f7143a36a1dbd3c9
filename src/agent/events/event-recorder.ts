import { createHash, randomBytes } from 'node:crypto';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ObjectReference } from '../../kube/objects.ts';
import { rfc3339Seconds } from '../status/kube-time.ts';

/** The reasons that people and tools look for, kubelet's, and one of our own (the last). */
export type EventReason =
  | 'Scheduled'
  | 'Pulling'
  | 'Pulled'
  | 'Created'
  | 'Started'
  | 'Killing'
  | 'BackOff'
  | 'Failed'
  | 'ErrImageNeverPull'
  | 'FailedMount'
  | 'FailedCreatePodSandBox'
  | 'FailedKillPod'
  | 'FailedPreStopHook'
  | 'SandboxChanged'
  | 'InvalidEnvironmentVariableNames'
  | 'NodeReady'
  | 'AppArmor'
  | 'OutOfHugePages'
  | 'TeardownBlocked';

export interface EventInput {
  readonly about: ObjectReference;
  readonly type: 'Normal' | 'Warning';
  readonly reason: EventReason;
  readonly message: string;
}

interface Known {
  readonly name: string;
  readonly namespace: string;
  readonly first: string;
  count: number;
}

const COMPONENT = 'gantry-agent';
const MAX_WAITING = 1_000;
const MAX_KNOWN = 4_096;

/**
 * Kubernetes Events: the same thing said again raises the count of the event that is there. Recording never waits and never
 * fails its caller; when the API is slow for long, the oldest that were not written are dropped.
 */
export class EventRecorder {
  readonly #kube: Pick<KubeClient, 'create' | 'patch'>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #host: string;
  readonly #known = new Map<string, Known>();
  readonly #waiting: EventInput[] = [];
  readonly #op: Op;
  #writing: Promise<void> | undefined;

  constructor(deps: {
    readonly kube: Pick<KubeClient, 'create' | 'patch'>;
    readonly clock: Clock;
    readonly log: Log;
    readonly host: string;
    readonly signal: AbortSignal;
  }) {
    this.#kube = deps.kube;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#host = deps.host;
    this.#op = { signal: deps.signal, log: deps.log };
  }

  record(event: EventInput): void {
    this.#waiting.push(event);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
      this.#log.warn({ waiting: MAX_WAITING }, 'events are dropped: the API does not take them');
    }
    this.#writing ??= this.#drain();
  }

  /** Resolves when all that was recorded so far has been written or given up. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async #drain(): Promise<void> {
    // A turn later: several events of one step are then in order behind one another without holding their caller.
    await Promise.resolve();
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        await this.#write(event);
      } catch (error) {
        this.#log.warn({ reason: event.reason, about: event.about.name, error: messageOf(error) }, 'event lost');
      }
    }
    this.#writing = undefined;
  }

  async #write(event: EventInput): Promise<void> {
    const key = keyOf(event);
    const now = rfc3339Seconds(this.#clock.wallMs());
    const known = this.#known.get(key);
    if (known !== undefined && (await this.#countUp(known, now))) return;
    const created = await this.#create(event, now);
    this.#known.delete(key);
    this.#known.set(key, created);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }

  async #countUp(known: Known, now: string): Promise<boolean> {
    const body = { count: known.count + 1, lastTimestamp: now };
    try {
      await this.#kube.patch(this.#op, 'events', known, { type: 'merge', body });
    } catch (error) {
      // Expired or deleted meanwhile: it begins anew.
      if (isKind(error, 'NotFound')) return false;
      throw error;
    }
    known.count += 1;
    return true;
  }

  async #create(event: EventInput, now: string): Promise<Known> {
    const namespace = event.about.namespace ?? 'default';
    const name = `${event.about.name ?? 'unknown'}.${randomBytes(8).toString('hex')}`;
    await this.#kube.create(this.#op, 'events', {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace },
      involvedObject: event.about,
      type: event.type,
      reason: event.reason,
      message: event.message,
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component: COMPONENT, host: this.#host },
      reportingComponent: COMPONENT,
      reportingInstance: this.#host,
    });
    return { name, namespace, first: now, count: 1 };
  }
}

function keyOf({ about, type, reason, message }: EventInput): string {
  return createHash('sha256')
    .update(JSON.stringify([about.uid, about.name, about.namespace, about.fieldPath, type, reason, message]))
    .digest('base64');
}
