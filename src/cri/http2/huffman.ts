/**
 * HPACK's Huffman code (RFC 7541, appendix B). It is canonical: the symbols, in the order of their codes, and how many codes there are of each
 * length say what each code is.
 */
export const SYMBOLS_BY_LENGTH: readonly (readonly [bits: number, symbols: string])[] = [
  [5, '012aceiost'],
  [6, ' %-./3456789=A_bdfghlmnpru'],
  [7, ':BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz'],
  [8, '&*,;XZ'],
  [10, '!"()?'],
  [11, "'+|"],
  [12, '#>'],
  [13, '\0$@[]~'],
  [14, '^}'],
  [15, '<`{'],
  [19, '\\\xc3\xd0'],
  [20, '\x80\x82\x83\xa2\xb8\xc2\xe0\xe2'],
  [21, '\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6'],
  [22, '\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9'],
  [
    23,
    '\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\xc5\xe7\xef',
  ],
  [24, '\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed'],
  [25, '\xc7\xcf\xea\xeb'],
  [26, '\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff'],
  [27, '\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe'],
  [
    28,
    '\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f\xdc\xf9',
  ],
  [30, '\n\r\x16'],
];
const LONGEST_CODE_BITS = 30;
/** What is left of the last byte is filled with ones, which begin no symbol so short. */
const MOST_PADDING_BITS = 7;

interface Codes {
  /** The smallest code of this length. */
  readonly first: number;
  readonly symbols: string;
}

/** For each length the codes of that length; shorter codes are smaller prefixes. */
const CODES: readonly (Codes | undefined)[] = codesByLength();

function codesByLength(): (Codes | undefined)[] {
  const codes = new Array<Codes | undefined>(LONGEST_CODE_BITS + 1).fill(undefined);
  let next = 0;
  let length = 0;
  for (const [bits, symbols] of SYMBOLS_BY_LENGTH) {
    next *= 2 ** (bits - length);
    length = bits;
    codes[bits] = { first: next, symbols };
    next += symbols.length;
  }
  return codes;
}

/** The text behind coded bytes, a character for each byte; undefined when they are no such code. */
export function huffmanDecoded(bytes: Uint8Array): string | undefined {
  let text = '';
  let code = 0;
  let bits = 0;
  let onlyOnes = true;
  for (const byte of bytes) {
    for (let mask = 0x80; mask > 0; mask >>= 1) {
      const one = (byte & mask) !== 0;
      code = code * 2 + (one ? 1 : 0);
      onlyOnes &&= one;
      if (++bits > LONGEST_CODE_BITS) return undefined;
      const codes = CODES[bits];
      const symbol = codes === undefined ? undefined : codes.symbols[code - codes.first];
      if (symbol === undefined) continue;
      text += symbol;
      code = bits = 0;
      onlyOnes = true;
    }
  }
  return bits <= MOST_PADDING_BITS && onlyOnes ? text : undefined;
}
