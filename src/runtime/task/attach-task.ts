import { childSignal, raceSignal, type Op } from '../../lib/abort.ts';
import { GantryError, failedPrecondition, isKind } from '../../lib/errors.ts';
import type { PacketListener } from '../../linux/packet-sockets.ts';
import { attachSocketPath, bundleFiles } from './bundle-files.ts';
import type { MonitorConnection } from './monitor-connections.ts';
import { isAlive } from './process-end.ts';
import { pumpInput, type RemoteStdio } from './remote-stdio.ts';
import type { TaskContext } from './task-context.ts';
import type { AttachRequest, Task } from './task.ts';
import { followSizes } from './window-size.ts';

/** The first byte of each packet from conmon says which stream it is of; a terminal's output is all of stdout. */
const STDERR = 3;

/** conmon reads a packet of up to 32767 bytes at a time, and cuts off what is more. */
const INPUT_PACKET_BYTES = 16_384;

/** How much of the output waits for a client that reads slowly, before it is told that it is too slow. */
const MOST_WAITING_BYTES = 8 * 1024 * 1024;

/**
 * Connects a client to the streams of a running container, from now on: what was written before is in the log. Resolves when the container
 * ends, or when the client closes its stdin and the container's is to stay open for the next one.
 *
 * The container is never held up: everything is read from the monitor at once, and a client that is further behind than 8 MiB is
 * dropped (ResourceExhausted). Throws FailedPrecondition when the container does not run, Unavailable when its monitor is gone.
 */
export async function attachTask(
  op: Op,
  context: TaskContext,
  task: Task,
  { stdin }: AttachRequest,
  remote: RemoteStdio,
): Promise<void> {
  if (!(await isAlive(context.processes, task))) throw failedPrecondition(`attach: task ${task.id} does not run`);
  using session = childSignal(op.signal);
  const output = new AttachedOutput(remote);
  const path = attachSocketPath(context.socketsDir, task.id);
  const connection = context.monitors.open(task.id, path, output, MOST_WAITING_BYTES);
  try {
    if (task.terminal) {
      const own = { clock: context.clock, signal: session.signal };
      void followSizes(own, bundleFiles(task.bundleDir).winsz, remote.resizes).catch(() => undefined);
    }
    const inputClosed = handOnInput(connection, remote, stdin);
    const done = stdin === 'stays' ? Promise.race([output.ended, inputClosed]) : output.ended;
    await raceSignal(done, op.signal);
  } finally {
    // Only who had the container's stdin takes it along.
    connection.leave({ keep: stdin === 'closes' && remote.stdin === undefined });
  }
}

/** Resolves when the client has closed its half. */
function handOnInput(
  connection: MonitorConnection,
  { stdin }: RemoteStdio,
  becomes: AttachRequest['stdin'],
): Promise<void> {
  if (stdin === undefined) return new Promise(() => undefined);
  const send = async (chunk: Buffer): Promise<void> => {
    if (becomes === 'none') return;
    for (let at = 0; at < chunk.length; at += INPUT_PACKET_BYTES) {
      await connection.send(chunk.subarray(at, at + INPUT_PACKET_BYTES));
    }
  };
  return pumpInput(stdin, send, () => {
    if (becomes === 'closes') connection.endSending();
  });
}

/** What comes from the monitor, on its way to the client. */
class AttachedOutput implements PacketListener {
  readonly #remote: RemoteStdio;
  readonly #end = Promise.withResolvers<undefined>();
  #waiting = 0;
  #closed = false;

  constructor(remote: RemoteStdio) {
    this.#remote = remote;
    this.#end.promise.catch(() => undefined);
  }

  /** Resolves when the container's streams are at their end and the client has it all. */
  get ended(): Promise<undefined> {
    return this.#end.promise;
  }

  onPacket(packet: Buffer, taken: () => void): void {
    const target = packet[0] === STDERR ? this.#remote.stderr : this.#remote.stdout;
    if (target === undefined || target.destroyed) {
      taken();
      return;
    }
    this.#waiting++;
    target.write(packet.subarray(1), () => {
      taken();
      this.#waiting--;
      this.#settle();
    });
  }

  onEnd(error: Error | undefined): void {
    if (error !== undefined) {
      this.#end.reject(isKind(error, 'ResourceExhausted') ? tooSlow() : error);
      return;
    }
    this.#closed = true;
    this.#settle();
  }

  #settle(): void {
    if (this.#closed && this.#waiting === 0) this.#end.resolve(undefined);
  }
}

function tooSlow(): GantryError {
  const most = String(MOST_WAITING_BYTES / 1024 / 1024);
  return new GantryError(
    'ResourceExhausted',
    `attach: this client reads more slowly than the container writes and is ${most} MiB behind: the log has it all`,
  );
}
