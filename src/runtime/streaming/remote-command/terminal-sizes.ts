import type { TerminalSize } from '../streams.ts';

/** A size is some 30 characters; more than this without an end is none. */
const MAX_PENDING_CHARS = 1_024;
/** Only the newest counts; a piece that is full of garbage is not gone through. */
const MAX_READ_AT_ONCE = 8;
const LARGEST = 0xffff;

/**
 * The terminal's sizes as the client sends them: JSON objects, one after the other, in whatever pieces. Whoever iterates gets the
 * newest, so that a client that resizes quickly fills nothing. What cannot be understood is left out.
 */
export class TerminalSizes implements AsyncIterable<TerminalSize> {
  #pending = '';
  #newest: TerminalSize | undefined;
  #ended = false;
  #waiting: (() => void) | undefined;

  receive(bytes: Buffer): void {
    const objects = (this.#pending + bytes.toString('latin1')).split('}');
    const rest = objects.pop() ?? '';
    this.#pending = rest.length > MAX_PENDING_CHARS ? '' : rest;
    const newest = objects
      .slice(-MAX_READ_AT_ONCE)
      .map((object) => sizeIn(`${object}}`))
      .findLast((size) => size !== undefined);
    if (newest === undefined) return;
    this.#newest = newest;
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalSize, void> {
    while (true) {
      const size = this.#newest;
      this.#newest = undefined;
      if (size !== undefined) {
        yield size;
      } else if (this.#ended) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#waiting = resolve;
        });
      }
    }
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}

function sizeIn(json: string): TerminalSize | undefined {
  let fields: Map<string, unknown>;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== 'object' || value === null) return undefined;
    fields = new Map(Object.entries(value).map(([name, field]) => [name.toLowerCase(), field]));
  } catch {
    return undefined;
  }
  const width = fields.get('width');
  const height = fields.get('height');
  return isLength(width) && isLength(height) ? { width, height } : undefined;
}

function isLength(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= LARGEST;
}
