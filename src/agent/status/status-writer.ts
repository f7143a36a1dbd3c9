import type { Op } from '../../lib/abort.ts';
import { isKind, messageOf } from '../../lib/errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Pod, PodStatus } from '../../kube/objects.ts';
import type { NodePod } from '../pods/node-pod.ts';
import { sameStatus } from './pod-status.ts';

interface Entry {
  pod: NodePod;
  wanted: PodStatus;
  written: PodStatus | undefined;
  writing: Promise<void> | undefined;
}

const RETRY_MS = 1_000;
const MAX_CONFLICTS = 5;

/** Brings statuses to the API: one write at a time for a pod, the newest wins, and what says nothing new is not written. */
export class StatusWriter {
  readonly #kube: Pick<KubeClient, 'get' | 'replaceStatus'>;
  readonly #clock: Clock;
  readonly #op: Op;
  readonly #entries = new Map<string, Entry>();

  constructor(kube: Pick<KubeClient, 'get' | 'replaceStatus'>, clock: Clock, op: Op) {
    this.#kube = kube;
    this.#clock = clock;
    this.#op = op;
  }

  /** What was last said about the pod, here or by an earlier agent. */
  previous(pod: NodePod): PodStatus | undefined {
    return this.#entries.get(pod.uid)?.wanted ?? pod.object.status;
  }

  set(pod: NodePod, status: PodStatus): void {
    const entry = this.#entries.get(pod.uid) ?? {
      pod,
      wanted: status,
      written: pod.object.status,
      writing: undefined,
    };
    this.#entries.set(pod.uid, entry);
    entry.pod = pod;
    entry.wanted = status;
    entry.writing ??= this.#write(entry);
  }

  /** Resolves when the newest status of the pod has been written, or cannot be because the pod is gone. */
  async flush(uid: string): Promise<void> {
    for (let writing = this.#entries.get(uid)?.writing; writing !== undefined;) {
      await writing;
      writing = this.#entries.get(uid)?.writing;
    }
  }

  forget(uid: string): void {
    this.#entries.delete(uid);
  }

  async #write(entry: Entry): Promise<void> {
    await Promise.resolve();
    try {
      while (!sameStatus(entry.wanted, entry.written) && this.#entries.get(entry.pod.uid) === entry) {
        const status = entry.wanted;
        try {
          if (!(await this.#writeOnce(entry.pod, status))) break;
          entry.written = status;
        } catch (error) {
          if (this.#op.signal.aborted) break;
          this.#op.log.warn(
            { podUid: entry.pod.uid, error: messageOf(error) },
            'pod status cannot be written, trying again',
          );
          await this.#clock.sleep(RETRY_MS, this.#op.signal);
        }
      }
    } catch {
      // The agent stops.
    } finally {
      entry.writing = undefined;
    }
  }

  /** False: the pod is gone, or the name belongs to another one by now. */
  async #writeOnce(pod: NodePod, status: PodStatus): Promise<boolean> {
    let object: Pod = pod.object;
    for (let conflicts = 0; ; conflicts++) {
      try {
        await this.#kube.replaceStatus(this.#op, 'pods', { ...object, status });
        return true;
      } catch (error) {
        if (isKind(error, 'NotFound')) return false;
        if (!isKind(error, 'Aborted') || conflicts >= MAX_CONFLICTS) throw error;
      }
      try {
        object = await this.#kube.get(this.#op, 'pods', { namespace: pod.namespace, name: pod.name });
      } catch (error) {
        if (isKind(error, 'NotFound')) return false;
        throw error;
      }
      if (object.metadata.uid !== pod.uid) return false;
    }
  }
}
