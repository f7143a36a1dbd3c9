/**
 * HPACK's Huffman code (RFC 7541, appendix B) is canonical: how many codes there are of each length says where each code
 * begins and ends. That is all that is needed to find a symbol in a coded string and to put another of the same length in
 * its place.
 */
const CODES_OF_LENGTH: readonly (readonly [bits: number, codes: number])[] = [
  [5, 10],
  [6, 26],
  [7, 32],
  [8, 6],
  [10, 5],
  [11, 3],
  [12, 2],
  [13, 6],
  [14, 2],
  [15, 3],
  [19, 3],
  [20, 8],
  [21, 13],
  [22, 26],
  [23, 29],
  [24, 12],
  [25, 4],
  [26, 15],
  [27, 19],
  [28, 29],
  [30, 4],
];
const LONGEST_CODE_BITS = 30;

/** For each length: one more than the largest code of that length; 0 where there is none. */
const END_OF_LENGTH: readonly number[] = endOfLength();

function endOfLength(): number[] {
  const ends = new Array<number>(LONGEST_CODE_BITS + 1).fill(0);
  let next = 0;
  let length = 0;
  for (const [bits, codes] of CODES_OF_LENGTH) {
    next *= 2 ** (bits - length);
    length = bits;
    next += codes;
    ends[bits] = next;
  }
  return ends;
}

/** Both are six bits long. */
const SLASH = 0b011000;
const DASH = 0b010110;
const SYMBOL_BITS = 6;

/** Turns each coded `/` of `bytes` into a `-`, in place. A string that is cut or no such code is left as far as it goes. */
export function slashesToDashes(bytes: Uint8Array): void {
  const bitCount = bytes.length * 8;
  let code = 0;
  let bits = 0;
  for (let at = 0; at < bitCount; at++) {
    code = code * 2 + bitAt(bytes, at);
    bits++;
    if (bits > LONGEST_CODE_BITS) return;
    const end = END_OF_LENGTH[bits] ?? 0;
    // Shorter codes are smaller prefixes, so the first length whose range holds the code is its length.
    if (code >= end) continue;
    if (bits === SYMBOL_BITS && code === SLASH) writeDash(bytes, at - SYMBOL_BITS + 1);
    code = 0;
    bits = 0;
  }
}

function bitAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;
}

function writeDash(bytes: Uint8Array, from: number): void {
  for (let i = 0; i < SYMBOL_BITS; i++) {
    const at = from + i;
    const mask = 1 << (7 - (at & 7));
    const byte = bytes[at >> 3] ?? 0;
    bytes[at >> 3] = (DASH >> (SYMBOL_BITS - 1 - i)) & 1 ? byte | mask : byte & ~mask;
  }
}
