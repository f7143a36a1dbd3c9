/** How long a client may take for what. */
export interface StreamingLimits {
  /** For the streams of a command, and for the second one of a port's pair. */
  readonly streamCreationMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
  /**
   * For the client to read what is on the way and to close, after the command has ended. The connection must not be closed before: a
   * frame of the client's that meets a closed socket has the kernel drop what it had not delivered.
   */
  readonly finishMs: number;
}

/** The field's own. */
export const DEFAULT_LIMITS: StreamingLimits = {
  streamCreationMs: 30_000,
  idleMs: 4 * 60 * 60_000,
  finishMs: 15 * 60_000,
};
