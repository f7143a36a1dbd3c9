import type { Duplex, Readable, Writable } from 'node:stream';
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

/** A terminal's size in characters. */
export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

/** The client's side of one exec or attach. Each stream has back-pressure; what was not asked for is empty. */
export interface RemoteSession {
  /** Ending it closes that half alone: the command reads an end of file. */
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  resize(size: TerminalSize): void;
  /**
   * The command's exit code, 0 at the end of an attach; by then stdout and stderr have ended, with what is not read yet. Rejects with the error
   * that was told in its place, or Unavailable where the connection broke off.
   */
  readonly ended: Promise<number>;
  /** Goes away, whatever the command does. */
  close(): void;
}

/** One connection to a port of a pod. */
export interface PortConnection {
  /** Each half ends on its own. Destroying it breaks the connection off. */
  readonly data: Duplex;
  /** Settles when the other side has nothing more to say of it: why it failed, or nothing. */
  readonly failure: Promise<string | undefined>;
}

/** The client's side of a port-forward: any number of connections, side by side. */
export interface PortForwardSession {
  open(port: number): PortConnection;
  /** Fires when the session is over, whoever ended it; its connections are broken off then. */
  readonly over: AbortSignal;
  close(): void;
}

/** The client's side of the API. */
export interface PodStreams {
  /** Resolves when the API has agreed; rejects with the error of its Status if it does not. A session ends when the op's signal fires. */
  run(op: Op, request: PodCommandRequest): Promise<RemoteSession>;
  /** Likewise. */
  forward(op: Op, request: PodPortForwardRequest): Promise<PortForwardSession>;
}
