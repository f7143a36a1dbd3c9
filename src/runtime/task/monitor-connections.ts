import { isKind, unavailable } from '../../lib/errors.ts';
import type { PacketListener, PacketSocket, PacketSockets } from '../../linux/packet-sockets.ts';

/** Connections to packet sockets, as the kernel has them. */
export type Packets = Pick<PacketSockets, 'connect'>;

export interface MonitorConnection {
  send(packet: Uint8Array): Promise<void>;
  endSending(): void;
  /** What comes from now on is for nobody. `keep`: the connection stays all the same, for the next client of the same task. */
  leave(how: { readonly keep: boolean }): void;
}

/** A listener that may be exchanged. */
class Switch implements PacketListener {
  target: PacketListener | undefined;
  over = false;
  readonly #onOver: () => void;

  constructor(onOver: () => void) {
    this.#onOver = onOver;
  }

  onPacket(packet: Buffer, taken: () => void): void {
    if (this.target === undefined) taken();
    else this.target.onPacket(packet, taken);
  }

  onEnd(error: Error | undefined): void {
    this.over = true;
    this.#onOver();
    this.target?.onEnd(error);
  }
}

interface Kept {
  readonly socket: PacketSocket;
  readonly output: Switch;
}

/**
 * Connections to the attach sockets of the monitors. conmon takes the end of any of them for the end of the container's stdin, where
 * that is to be opened once: so one that was not for stdin is kept, unread by anybody, until the next client or the container's end.
 */
export class MonitorConnections {
  readonly #packets: Packets;
  readonly #kept = new Map<string, Kept[]>();

  constructor(packets: Packets) {
    this.#packets = packets;
  }

  /**
   * `mostUntakenBytes`: a listener that is further behind hears no more (ResourceExhausted). Throws Unavailable when the monitor is gone.
   */
  open(taskId: string, path: string, listener: PacketListener, mostUntakenBytes: number): MonitorConnection {
    const { socket, output } = this.#kept.get(taskId)?.pop() ?? this.#connect(taskId, path, mostUntakenBytes);
    output.target = listener;
    return {
      send: (packet) => socket.send(packet),
      endSending: () => {
        socket.endSending();
      },
      leave: ({ keep }) => {
        output.target = undefined;
        if (keep && !output.over) this.#kept.set(taskId, [...(this.#kept.get(taskId) ?? []), { socket, output }]);
        else socket.close();
      },
    };
  }

  #connect(taskId: string, path: string, mostUntakenBytes: number): Kept {
    const output: Switch = new Switch(() => {
      this.#forget(taskId, output);
    });
    try {
      return { socket: this.#packets.connect(path, output, { mostUntakenBytes }), output };
    } catch (error) {
      if (!isKind(error, 'NotFound', 'Unknown')) throw error;
      throw unavailable(`attach: the monitor of task ${taskId} does not answer`, { cause: error });
    }
  }

  #forget(taskId: string, output: Switch): void {
    const rest = (this.#kept.get(taskId) ?? []).filter((kept) => kept.output !== output);
    if (rest.length > 0) this.#kept.set(taskId, rest);
    else this.#kept.delete(taskId);
  }
}
