import fc from 'fast-check';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { constants, createInflate, deflateSync, inflateSync } from 'node:zlib';
import { isKind } from '../errors.ts';
import { FakeHeaderDeflater } from './fake-header-deflater.ts';
import { decodeHeaderBlock, HeaderBlocks } from './header-block.ts';
import { HEADER_DICTIONARY } from './header-dictionary.ts';
import { HeaderInflater } from './header-inflater.ts';

const isRefused = (error: unknown): boolean => isKind(error, 'InvalidArgument');

function adler32(bytes: Buffer): number {
  let a = 1;
  let b = 0;
  for (const byte of bytes) {
    a = (a + byte) % 65_521;
    b = (b + a) % 65_521;
  }
  return b * 65_536 + a;
}

test('the dictionary is the one of the standard, whose sum every zlib head of SPDY/3 has', () => {
  assert.equal(HEADER_DICTIONARY.length, 1_423);
  assert.equal(adler32(HEADER_DICTIONARY), 0xe3c6_a7c2);
});

describe('what we send', () => {
  test('all blocks of a connection are one zlib stream, of which each can be read when it has come', async () => {
    const blocks = new HeaderBlocks();
    const zlib = createInflate({ dictionary: HEADER_DICTIONARY, flush: constants.Z_SYNC_FLUSH });
    const got: Buffer[] = [];
    zlib.on('data', (part: Buffer) => got.push(part));
    for (let index = 1; index <= 3; index += 1) {
      await new Promise<void>((resolve) => zlib.write(blocks.next(), () => setImmediate(resolve)));
      assert.equal(Buffer.concat(got).toString('hex'), '00000000'.repeat(index));
    }
    zlib.destroy();
  });

  test('a block reads as the headers that went into it', async () => {
    const blocks = new HeaderBlocks();
    const inflater = new HeaderInflater();
    const sent: Record<string, string>[] = [{ streamtype: 'data', port: '80' }, {}, { name: 'x'.repeat(5_000) }];
    for (const headers of sent) {
      const decoded = decodeHeaderBlock(await inflater.inflate(blocks.next(headers)));
      assert.deepEqual(Object.fromEntries(decoded), headers);
    }
    inflater.close();
    assert.throws(() => blocks.next({ name: 'x'.repeat(70_000) }), isRefused);
  });

  test('a block without headers reads as none', () => {
    const bytes = inflateSync(new HeaderBlocks().next(), {
      dictionary: HEADER_DICTIONARY,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    assert.equal(decodeHeaderBlock(bytes).size, 0);
  });
});

describe('what clients send', () => {
  test('their blocks are one stream: each is read with what came before', async () => {
    const client = new FakeHeaderDeflater();
    const inflater = new HeaderInflater();
    const sent: Record<string, string>[] = [
      { streamtype: 'error' },
      { streamtype: 'stdin', port: '80' },
      {},
      { streamtype: 'error' },
    ];
    for (const headers of sent) {
      const decoded = decodeHeaderBlock(await inflater.inflate(await client.block(headers)));
      assert.deepEqual(Object.fromEntries(decoded), headers);
    }
    inflater.close();
  });

  test('a bomb is refused before it has become large', async () => {
    const client = new FakeHeaderDeflater();
    const inflater = new HeaderInflater();
    const bomb = await client.compress(Buffer.alloc(40_000_000));
    assert.ok(bomb.length < 60_000);
    await assert.rejects(inflater.inflate(bomb), isRefused);
    await assert.rejects(inflater.inflate(await client.block({})), isRefused, 'and nothing is read after it');
    inflater.close();
  });

  test('what is no zlib stream, or has another dictionary, is refused', async () => {
    for (const bytes of [
      Buffer.from('nonsense, truly'),
      deflateSync(Buffer.from('x'), { dictionary: Buffer.from('other') }),
    ]) {
      const inflater = new HeaderInflater();
      await assert.rejects(inflater.inflate(bytes), isRefused);
      inflater.close();
    }
  });

  test('one that waits when the connection ends is let go', async () => {
    const inflater = new HeaderInflater();
    const waiting = inflater.inflate(Buffer.alloc(10));
    inflater.close();
    await assert.rejects(waiting, isRefused);
  });

  const block = (...words: (number | string)[]): Buffer =>
    Buffer.concat(
      words.map((word) => {
        if (typeof word === 'string') return Buffer.from(word);
        const bytes = Buffer.alloc(4);
        bytes.writeUInt32BE(word);
        return bytes;
      }),
    );

  test('names are read in lower case, of several values the first', () => {
    assert.deepEqual([...decodeHeaderBlock(block(1, 10, 'StreamType', 7, 'a\0b\0c\0d'))], [['streamtype', 'a']]);
  });

  const broken: readonly [string, Buffer][] = [
    ['nothing', block()],
    ['a name that is longer than the block', block(1, 0xffff_ffff, 'a')],
    ['a value that is missing', block(1, 1, 'a')],
    ['a name twice', block(2, 1, 'a', 1, 'x', 1, 'A', 1, 'y')],
    ['no name', block(1, 0, '', 1, 'x')],
    ['very many', block(0xffff_ffff)],
  ];
  for (const [name, bytes] of broken) {
    test(`refused: ${name}`, () => assert.throws(() => decodeHeaderBlock(bytes), isRefused));
  }

  test('whatever comes, it is headers or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        try {
          decodeHeaderBlock(Buffer.from(bytes));
        } catch (error) {
          assert.ok(isRefused(error), String(error));
        }
      }),
    );
  });
});
