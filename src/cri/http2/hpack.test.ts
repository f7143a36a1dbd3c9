import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Field } from './header-table.ts';
import { headerBlock, HpackReader } from './hpack.ts';
import { huffmanDecoded, SYMBOLS_BY_LENGTH } from './huffman.ts';
import { CODE } from './wire.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

describe('the Huffman code', () => {
  test('has every byte once, and all of the codes that there are but one', () => {
    const symbols = SYMBOLS_BY_LENGTH.map(([, text]) => text).join('');
    assert.equal(new Set(symbols).size, 256);
    assert.equal(symbols.length, 256);
    const used = SYMBOLS_BY_LENGTH.reduce((sum, [bits, text]) => sum + text.length * 2 ** (30 - bits), 0);
    assert.equal(used, 2 ** 30 - 1, 'the one that is left is the end of a string, which nobody sends');
  });

  test('reads what is coded', () => {
    assert.equal(huffmanDecoded(hex('f1e3 c2e5 f23a 6ba0 ab90 f4ff')), 'www.example.com');
    assert.equal(huffmanDecoded(hex('')), '');
  });

  for (const [what, bytes] of [
    ['padding of a whole byte', '1fff'],
    ['padding of zeros', '18'],
    ['the end of a string', 'ffffffff'],
  ] as const) {
    test(`refuses ${what}`, () => assert.equal(huffmanDecoded(hex(bytes)), undefined));
  }
});

describe('header blocks', () => {
  test('refer to those before them (RFC 7541, C.4)', () => {
    const reader = new HpackReader();
    const request = (authority: string, scheme: string, path: string): Field[] => [
      [':method', 'GET'],
      [':scheme', scheme],
      [':path', path],
      [':authority', authority],
    ];
    const first = reader.read(hex('8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff'));
    assert.deepEqual(first, request('www.example.com', 'http', '/'));
    const second = reader.read(hex('8286 84be 5886 a8eb 1064 9cbf'));
    assert.deepEqual(second, [...request('www.example.com', 'http', '/'), ['cache-control', 'no-cache']]);
    const third = reader.read(hex('8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf'));
    assert.deepEqual(third, [...request('www.example.com', 'https', '/index.html'), ['custom-key', 'custom-value']]);
  });

  test('a table that is made smaller forgets the oldest', () => {
    const reader = new HpackReader();
    const add = (name: string): Buffer => Buffer.concat([hex('40 01'), Buffer.from(name), hex('01 31')]);
    reader.read(Buffer.concat([add('a'), add('b')]));
    assert.deepEqual(reader.read(hex('3f 03 be')), [['b', '1']], '34 bytes: one field');
    assert.throws(() => reader.read(hex('bf')), { code: CODE.compressionError });
    assert.deepEqual(reader.read(Buffer.concat([hex('20'), add('c')])), [['c', '1']]);
    assert.throws(() => reader.read(hex('be')), { code: CODE.compressionError });
  });

  test('what we write is read as it is meant, whatever its length', () => {
    const fields: Field[] = [
      [':status', '200'],
      ['short', ''],
      ...[126, 127, 128, 300, 20_000].map((length): Field => ['long', 'x'.repeat(length)]),
    ];
    assert.deepEqual(new HpackReader().read(headerBlock(fields)), fields);
  });

  for (const [what, bytes] of [
    ['index 0', '80'],
    ['an index that stands for nothing', 'be'],
    ['a name that stands for nothing', '7f 7f 00'],
    ['a text that is cut', '00 05 61'],
    ['no value', '00 01 61'],
    ['an integer without an end', 'ff ff ff ff ff ff ff'],
    ['an integer that is cut', 'ff'],
    ['a table that is larger than it may be', '3f e2 1f'],
    ["a table's size behind a field", '82 20'],
    ['a text that is not coded as it says', '00 81 ff 00'],
  ] as const) {
    test(`${what} is an error of the connection`, () => {
      assert.throws(() => new HpackReader().read(hex(bytes)), { code: CODE.compressionError });
    });
  }

  test('more fields than anybody needs are refused, also where a byte stands for each', () => {
    const reader = new HpackReader();
    reader.read(Buffer.concat([hex('40 01 61 7f a1 1e'), Buffer.alloc(4000, 0x78)]));
    assert.throws(() => reader.read(Buffer.alloc(20, 0xbe)), { code: CODE.enhanceYourCalm });
  });
});
