import type { Op } from '../../lib/abort.ts';

/** exec, attach and port-forward of pods, as Kubernetes' API has them: subresources whose connection becomes a stream. */

export const STREAM_SUBRESOURCES = ['exec', 'attach', 'portforward'] as const;

export type StreamSubresource = (typeof STREAM_SUBRESOURCES)[number];

/** Which streams of a command are wanted. With a terminal there is no stderr of its own: its output is one. */
export interface WantedStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

interface OfPod {
  readonly namespace: string;
  readonly name: string;
}

interface OfContainer extends OfPod, WantedStreams {
  /** May be left out when the pod has one container. */
  readonly container?: string;
}

export interface PodExecRequest extends OfContainer {
  readonly kind: 'exec';
  readonly command: readonly string[];
}

export interface PodAttachRequest extends OfContainer {
  readonly kind: 'attach';
}

export interface PodPortForwardRequest extends OfPod {
  readonly kind: 'portforward';
  /** The only ports that will be asked for, if the client says so before it begins. */
  readonly ports?: readonly number[];
}

export type PodCommandRequest = PodExecRequest | PodAttachRequest;

export type PodStreamRequest = PodCommandRequest | PodPortForwardRequest;

/** The daemon's side: who runs the pods says where its streams are served. */
export interface PodStreamUrls {
  /**
   * An `http:` URL that serves the request once, to the client's own protocol. Throws NotFound for a pod that there is not, InvalidArgument for
   * a container that it has not, that is not named though there are several, or that does not run.
   */
  streamUrl(op: Op, request: PodStreamRequest): Promise<string>;
}
