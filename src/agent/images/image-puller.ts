import { backoffDelayMs, CRASH_BACKOFF } from '../../lib/backoff.ts';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { isKind, messageOf, withContext, type GantryError } from '../../lib/errors.ts';
import { ImageStatusRequest, PullImageRequest, type Image } from '../../cri/gen/api.ts';
import type { ImageService } from '../../cri/services.ts';
import type { Container, Secret } from '../../kube/objects.ts';
import type { Story } from '../events/story.ts';
import type { NodePod } from '../pods/node-pod.ts';
import type { ImageUser } from '../sync/security-context.ts';
import { isImageName } from './image-name.ts';
import { pullCredentials } from './pull-credentials.ts';

export type ImageAnswer =
  | { readonly kind: 'present'; readonly imageRef: string; readonly user: ImageUser }
  | { readonly kind: 'pulling' }
  | { readonly kind: 'failed'; readonly reason: ImageFailure; readonly message: string; readonly retryInMs: number };

export type ImageFailure = 'ErrImagePull' | 'ImagePullBackOff' | 'ErrImageNeverPull' | 'InvalidImageName';

export interface ImageWant {
  readonly pod: NodePod;
  /** What it is for. */
  readonly container: string;
  /** The volume of the pod that is this image, if the container itself is not to be made of it. */
  readonly volume?: string;
  readonly image: string;
  readonly policy: string | undefined;
  /** The run that it is for: each run of policy Always looks again. */
  readonly attempt: number;
}

/** What the container itself is made of, then the images that it has as volumes. */
export function imagesOf(pod: NodePod, container: Container, attempt: number): ImageWant[] {
  const { name, image = '', imagePullPolicy, volumeMounts = [] } = container;
  const mounted = new Set(volumeMounts.map((mount) => mount.name));
  const volumes = (pod.spec.volumes ?? []).flatMap((volume): ImageWant[] => {
    if (volume.image === undefined || !mounted.has(volume.name)) return [];
    const { reference = '', pullPolicy } = volume.image;
    return [{ pod, container: name, volume: volume.name, image: reference, policy: pullPolicy, attempt }];
  });
  return [{ pod, container: name, image, policy: imagePullPolicy, attempt }, ...volumes];
}

interface Job {
  readonly attempt: number;
  readonly image: string;
  answer: Exclude<ImageAnswer, { kind: 'failed' }> | undefined;
  failure: { readonly reason: ImageFailure; readonly message: string; readonly sinceMs: number } | undefined;
  failures: number;
  retryAtMs: number;
  saidBackOff: boolean;
}

export interface ImagePullerDeps {
  readonly images: Pick<ImageService, 'imageStatus' | 'pullImage'>;
  readonly pullSecrets: (op: Op, pod: NodePod) => Promise<readonly Secret[]>;
  readonly clock: Clock;
  readonly story: Story;
  readonly op: Op;
  /** Something has changed for this pod. */
  readonly wake: (podUid: string) => void;
}

/** How long a fresh failure is shown as itself before it is called a back-off. */
const SHOW_ERROR_MS = 2_000;

/** Images by pull policy. A pull runs beside the pod's worker, which asks again when it is woken. */
export class ImagePuller {
  readonly #deps: ImagePullerDeps;
  readonly #jobs = new Map<string, Job>();

  constructor(deps: ImagePullerDeps) {
    this.#deps = deps;
  }

  /** What there is for this run of the container. The first question starts the work. */
  ensure(want: ImageWant): ImageAnswer {
    const { image } = want;
    const key = `${want.pod.uid}/${want.container}/${want.volume ?? ''}`;
    const old = this.#jobs.get(key);
    if (old?.image === image && old.attempt === want.attempt) {
      if (old.answer !== undefined) return old.answer;
      const waiting = this.#failed(want, old);
      if (waiting !== undefined) return waiting;
    }
    // Failures in a row count over attempts, as long as it is the same image.
    const failures = old?.image === image ? old.failures : 0;
    const job: Job = {
      attempt: want.attempt,
      image,
      answer: { kind: 'pulling' },
      failure: undefined,
      failures,
      retryAtMs: 0,
      saidBackOff: false,
    };
    this.#jobs.set(key, job);
    void this.#work(want, job);
    return { kind: 'pulling' };
  }

  /** What was found for the container, or for its volumes, must be looked for again: the runtime did not know it any more. */
  again(podUid: string, container: string): void {
    this.#forget(`${podUid}/${container}/`);
  }

  forget(podUid: string): void {
    this.#forget(`${podUid}/`);
  }

  #forget(prefix: string): void {
    for (const key of this.#jobs.keys()) if (key.startsWith(prefix)) this.#jobs.delete(key);
  }

  #failed(want: ImageWant, job: Job): ImageAnswer | undefined {
    if (job.failure === undefined) return undefined;
    const nowMs = this.#deps.clock.monotonicMs();
    const { reason, message, sinceMs } = job.failure;
    const retryInMs = job.retryAtMs - nowMs;
    if (retryInMs <= 0) return undefined;
    const showMs = sinceMs + SHOW_ERROR_MS - nowMs;
    if (reason !== 'ErrImagePull' || showMs > 0) {
      return {
        kind: 'failed',
        reason,
        message,
        retryInMs: reason === 'ErrImagePull' ? Math.min(retryInMs, showMs) : retryInMs,
      };
    }
    const text = `Back-off pulling image "${job.image}"`;
    if (!job.saidBackOff) {
      job.saidBackOff = true;
      this.#tell(want, 'image.back-off', text, { type: 'Normal', reason: 'BackOff' });
    }
    return { kind: 'failed', reason: 'ImagePullBackOff', message: `${text}: ${message}`, retryInMs };
  }

  async #work(want: ImageWant, job: Job): Promise<void> {
    try {
      job.answer = await this.#find(want, job.image);
      job.failures = 0;
    } catch (error) {
      job.answer = undefined;
      job.failures += 1;
      const nowMs = this.#deps.clock.monotonicMs();
      const reason =
        error instanceof NeverPullError
          ? 'ErrImageNeverPull'
          : isKind(error, 'InvalidArgument') && !isImageName(job.image)
            ? 'InvalidImageName'
            : 'ErrImagePull';
      job.failure = { reason, message: messageOf(error), sinceMs: nowMs };
      job.retryAtMs = nowMs + backoffDelayMs(CRASH_BACKOFF, job.failures);
      const message =
        reason === 'ErrImageNeverPull' ? messageOf(error) : `Failed to pull image "${job.image}": ${messageOf(error)}`;
      const event = { type: 'Warning', reason: reason === 'ErrImageNeverPull' ? reason : 'Failed' } as const;
      this.#tell(want, 'image.failed', message, event, { outcome: 'failed' });
    }
    this.#deps.wake(want.pod.uid);
  }

  async #find(want: ImageWant, image: string): Promise<Exclude<ImageAnswer, { kind: 'failed' }>> {
    const { op } = this.#deps;
    const policy = want.policy ?? 'IfNotPresent';
    const present = policy === 'Always' ? undefined : await this.#status(op, image);
    if (present !== undefined) {
      this.#tell(want, 'image.present', `Container image "${image}" already present on machine`, {
        type: 'Normal',
        reason: 'Pulled',
      });
      return answerOf(present);
    }
    if (policy === 'Never') {
      throw new NeverPullError(`Container image "${image}" is not present with pull policy of Never`);
    }
    this.#tell(want, 'image.pulling', `Pulling image "${image}"`, { type: 'Normal', reason: 'Pulling' });
    const startedMs = this.#deps.clock.monotonicMs();
    const imageRef = await this.#pull(op, want, image);
    const durationMs = this.#deps.clock.monotonicMs() - startedMs;
    const pulled = (await this.#status(op, imageRef)) ?? (await this.#status(op, image));
    this.#tell(
      want,
      'image.pulled',
      `Successfully pulled image "${image}" in ${seconds(durationMs)}`,
      { type: 'Normal', reason: 'Pulled' },
      { durationMs, outcome: 'ok', ...(pulled === undefined ? {} : { data: { sizeBytes: Number(pulled.size) } }) },
    );
    return pulled === undefined
      ? { kind: 'present', imageRef, user: { kind: 'name', name: '' } }
      : { ...answerOf(pulled), imageRef };
  }

  async #status(op: Op, image: string): Promise<Image | undefined> {
    const answer = await this.#deps.images.imageStatus(op, ImageStatusRequest.fromPartial({ image: { image } }));
    return answer.image;
  }

  /** With each credential that fits in turn, and without any if there is none. */
  async #pull(op: Op, want: ImageWant, image: string): Promise<string> {
    const credentials = pullCredentials(await this.#deps.pullSecrets(op, want.pod), image);
    const pull = async (auth?: (typeof credentials)[number]): Promise<string> => {
      const request = PullImageRequest.fromPartial({ image: { image, userSpecifiedImage: image }, auth });
      return (await this.#deps.images.pullImage(op, request)).imageRef;
    };
    let refused: GantryError | undefined;
    for (const auth of credentials) {
      try {
        return await pull(auth);
      } catch (error) {
        if (!isKind(error, 'Unauthenticated', 'PermissionDenied')) throw error;
        refused = withContext(`with the credentials for ${auth.serverAddress}`, error);
      }
    }
    if (refused !== undefined) throw refused;
    return await pull();
  }

  #tell(
    { pod, container, image, policy, volume }: ImageWant,
    what: string,
    message: string,
    event: { type: 'Normal' | 'Warning'; reason: 'Pulling' | 'Pulled' | 'Failed' | 'ErrImageNeverPull' | 'BackOff' },
    more: { outcome?: 'ok' | 'failed'; durationMs?: number; data?: Record<string, unknown> } = {},
  ): void {
    const why = `${volume === undefined ? '' : `volume ${volume}, `}pull policy ${policy ?? 'IfNotPresent'}`;
    this.#deps.story.tell({
      pod,
      container,
      image,
      what,
      message,
      why,
      event,
      ...more,
    });
  }
}

class NeverPullError extends Error {}

function answerOf(image: Image): { readonly kind: 'present'; readonly imageRef: string; readonly user: ImageUser } {
  const user: ImageUser =
    image.uid === undefined ? { kind: 'name', name: image.username } : { kind: 'uid', uid: image.uid.value };
  return { kind: 'present', imageRef: image.id, user };
}

function seconds(ms: number): string {
  return ms < 1000 ? `${String(Math.round(ms))}ms` : `${(ms / 1000).toFixed(1)}s`;
}
