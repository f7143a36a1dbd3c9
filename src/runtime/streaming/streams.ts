import type { Duplex, Readable, Writable } from 'node:stream';
import type { AttachRequest, ExecRequest, PortForwardRequest } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';

/**
 * What the wire (this room: URLs, SPDY, WebSocket) and the runtime side (processes, terminals, network namespaces) say to each
 * other. Nothing here knows which protocol a client speaks.
 */

/** A terminal's size in characters. */
export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

/**
 * The far end of one exec or attach: a stream for each one that the request asked for, none else.
 *
 * Every stream has back-pressure end to end (`write` returns false, a Readable that is not read fills the client's window), and
 * each is on its own: one that nobody reads stops no other. They end with the session: then they are destroyed, and a late write
 * fails in its callback. An 'error' of theirs needs no listener, it never ends the daemon.
 */
export interface RemoteCommand {
  /** Ends where the client closes its half; destroyed without an end where the client vanishes. */
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  /** None with a terminal, whose output is one. */
  readonly stderr: Writable | undefined;
  /** The terminal's sizes, the newest only: one that a newer one overtook is left out. Ends with the session; empty without a terminal. */
  readonly resizes: AsyncIterable<TerminalSize>;
}

/** How a command ended that ran to its end. */
export interface CommandEnd {
  readonly exitCode: number;
}

/**
 * What a URL leads to; the runtime side implements it. `op.signal` fires when nobody is there any more: the client vanished, the
 * session was idle for too long, or the daemon closes. What is thrown is told to the client in its protocol's words, and no other
 * session notices.
 *
 * The session is closed when the promise settles, after all that was written to the streams has been sent: a handler need not end
 * them, but has to await (or pipe to the end) what it writes.
 */
export interface StreamHandlers {
  exec(op: Op, request: ExecRequest, remote: RemoteCommand): Promise<CommandEnd>;
  /** Resolves when the container's streams are at their end. */
  attach(op: Op, request: AttachRequest, remote: RemoteCommand): Promise<void>;
  /**
   * One connection to one port of the sandbox; a client may have many at once in one session, each with its own call. `data` ends
   * where the client closes its half, and is to be ended where the port does. To be piped: a `for await` over it destroys both halves when
   * one has ended. Resolves when the connection is over.
   */
  portForward(op: Op, request: PortForwardRequest, port: number, data: Duplex): Promise<void>;
}

/** Serves the URLs that CRI's Exec, Attach and PortForward answer with. */
export interface StreamingServer {
  /** Where it listens, as `host:port`, with the port that it really has. */
  readonly address: string;
  /**
   * A URL that one client may use once, within a minute. Throws InvalidArgument for a request that no session can serve (no
   * stream at all, stderr with a terminal) and ResourceExhausted when too many URLs wait to be used.
   */
  execUrl(request: ExecRequest): string;
  attachUrl(request: AttachRequest): string;
  portForwardUrl(request: PortForwardRequest): string;
  /** Accepts nothing more and ends the sessions: each handler's signal fires, then the connections are cut. */
  close(): Promise<void>;
}
