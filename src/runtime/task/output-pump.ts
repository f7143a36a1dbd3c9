import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../lib/clock.ts';
import { endsWithin } from './ends-within.ts';

/** Where a command's output comes from. */
export interface OutputSource {
  readonly reader: Readable;
  /** Bytes that were written and that nobody has had from `reader` yet: what it has read ahead is among them. */
  unread(): number;
}

/** Something left in the background holds the stream open: this long its words still count as the command's own. */
const LINGER_MS = 250;

/**
 * Hands on what a command writes, a piece at a time: the next is read when the one before it has been taken, so that a slow reader holds
 * the command up and no memory is used. When nobody takes it any more the stream is closed, and the command hears so (EPIPE).
 */
export class OutputPump {
  readonly #source: OutputSource;
  readonly #target: Writable;
  readonly #done: Promise<void>;
  #readBytes = 0;
  #lastByte = Number.POSITIVE_INFINITY;
  #writing = false;

  /** Begins at once. */
  constructor(source: OutputSource, target: Writable) {
    this.#source = source;
    this.#target = target;
    this.#done = this.#run();
  }

  /**
   * The command has ended: resolves when what it wrote has been handed on. A background process of it that holds the stream open
   * keeps nobody: after a moment, what is in the stream by then is the last.
   */
  async drained(clock: Clock): Promise<void> {
    if (!(await endsWithin(clock, this.#done, LINGER_MS))) {
      this.#lastByte = this.#readBytes + this.#source.unread();
      if (this.#readBytes === this.#lastByte && !this.#writing) this.close();
    }
    await this.#done;
  }

  /** Nothing more is read. */
  close(): void {
    this.#source.reader.destroy();
  }

  async #run(): Promise<void> {
    try {
      for await (const chunk of this.#source.reader as AsyncIterable<Buffer>) {
        this.#readBytes += chunk.length;
        this.#writing = true;
        await written(this.#target, chunk);
        this.#writing = false;
        if (this.#readBytes >= this.#lastByte) break;
      }
    } catch {
      // However it ends (a terminal's end is the error EIO), it is the end of this stream only.
    } finally {
      this.close();
    }
  }
}

/** Resolves when the piece has been taken; rejects when nobody takes it any more. */
export function written(target: Writable, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    target.write(chunk, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(error);
    });
  });
}
