import type { Field } from './header-table.ts';
import { HpackReader, MOST_FIELDS_BYTES } from './hpack.ts';
import { CODE, ConnectionError, FLAG, MOST_PAYLOAD_BYTES, type Frame } from './wire.ts';

/** What a client's HEADERS say, with the CONTINUATIONs behind them. */
export interface HeaderBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly fields: readonly Field[];
}

interface OpenBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Buffer[];
}

const MOST_PARTS = MOST_FIELDS_BYTES / MOST_PAYLOAD_BYTES;
const PRIORITY_BYTES = 5;

/** Puts header blocks together and reads them, all in the order in which they come. */
export class HeaderBlocks {
  readonly #hpack = new HpackReader();
  #open: OpenBlock | undefined;

  /** Until it is complete no other frame may come. */
  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  /** A HEADERS frame, without its padding; undefined when more belongs to it. */
  begin({ streamId, flags }: Frame, unpadded: Buffer): HeaderBlock | undefined {
    const hasPriority = (flags & FLAG.priority) !== 0;
    if (hasPriority && unpadded.length < PRIORITY_BYTES) {
      throw new ConnectionError(CODE.frameSizeError, 'HEADERS without their priority');
    }
    const part = hasPriority ? unpadded.subarray(PRIORITY_BYTES) : unpadded;
    const endStream = (flags & FLAG.endStream) !== 0;
    if (flags & FLAG.endHeaders) return { streamId, endStream, fields: this.#hpack.read(part) };
    this.#open = { streamId, endStream, parts: [Buffer.from(part)] };
    return undefined;
  }

  /** A CONTINUATION frame. */
  goOn({ streamId, flags, payload }: Frame): HeaderBlock | undefined {
    const open = this.#open;
    if (open?.streamId !== streamId) throw new ConnectionError(CODE.protocolError, 'CONTINUATION of nothing');
    open.parts.push(Buffer.from(payload));
    // Each counts, even without content.
    if (open.parts.length > MOST_PARTS)
      throw new ConnectionError(CODE.enhanceYourCalm, 'a header block without an end');
    if ((flags & FLAG.endHeaders) === 0) return undefined;
    this.#open = undefined;
    const { endStream, parts } = open;
    return { streamId, endStream, fields: this.#hpack.read(Buffer.concat(parts)) };
  }
}
