import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { GantryError, notImplemented } from '../lib/errors.ts';
import { failure, framed, MessageReader, readHeader } from './grpc-wire.ts';
import type { Field } from './http2/header-table.ts';
import { HpackReader } from './http2/hpack.ts';

const REQUEST: readonly Field[] = [
  [':method', 'POST'],
  [':path', '/s/m'],
  ['content-type', 'application/grpc'],
];
const read = (block: Buffer): Record<string, string> => Object.fromEntries(new HpackReader().read(block));
const refusalOf = (fields: readonly Field[]): Record<string, string> => {
  const header = readHeader(fields);
  assert.ok('refusal' in header);
  return read(header.refusal);
};

describe('the header of a request', () => {
  test('says what is called, and how long somebody waits', () => {
    assert.deepEqual(readHeader(REQUEST), { path: '/s/m' });
    const times = { '2H': 7_200_000, '1M': 60_000, '3S': 3000, '150m': 150, '1500u': 1.5, '99999999n': 99.999999 };
    for (const [text, timeoutMs] of Object.entries(times)) {
      assert.deepEqual(readHeader([...REQUEST, ['grpc-timeout', text]]), { path: '/s/m', timeoutMs });
    }
  });

  test('a time that is none is an error of gRPC', () => {
    for (const text of ['', 'S', '5', '-5S', '5s', '123456789S', '1.5S']) {
      const said = refusalOf([...REQUEST, ['grpc-timeout', text]]);
      assert.deepEqual([said[':status'], said['grpc-status']], ['200', '13'], text);
    }
  });

  test('what is not gRPC is an error of HTTP', () => {
    const but = (name: string, value: string): Field[] => [...REQUEST.filter(([key]) => key !== name), [name, value]];
    assert.equal(refusalOf(but(':method', 'GET'))[':status'], '405');
    for (const type of ['text/html', 'application/grpc-web', 'application/grpc+json', '']) {
      assert.equal(refusalOf(but('content-type', type))[':status'], '415', type);
    }
    for (const type of ['application/grpc+proto', 'application/grpc;x=y']) {
      assert.deepEqual(readHeader(but('content-type', type)), { path: '/s/m' });
    }
  });
});

describe('the end of an answer', () => {
  test('its words are printable, and mean what they meant', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 200 }), (text) => {
        const message = text.toWellFormed();
        const said = read(failure(new GantryError('NotFound', message), false));
        assert.equal(said['grpc-status'], '5');
        assert.match(said['grpc-message'] ?? '', /^[ -~]*$/);
        assert.equal(decodeURIComponent(said['grpc-message'] ?? ''), message);
      }),
      { seed: 7, numRuns: 300 },
    );
  });

  test('is a whole answer where nothing went before', () => {
    const said = read(failure(notImplemented('x'), true));
    assert.deepEqual([said[':status'], said['content-type']], ['200', 'application/grpc']);
    assert.equal(said['grpc-accept-encoding'], 'identity');
  });
});

describe('the message of a request', () => {
  test('is gathered from whatever pieces it comes in', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.array(fc.nat(40)), (message, cuts) => {
        const reader = new MessageReader();
        let rest = framed(message);
        for (const cut of cuts) {
          reader.push(rest.subarray(0, cut));
          rest = rest.subarray(cut);
        }
        reader.push(rest);
        assert.deepEqual(new Uint8Array(reader.whole()), message);
      }),
      { seed: 7, numRuns: 300 },
    );
  });

  for (const [what, kind, bytes] of [
    ['nothing', 'Internal', ''],
    ['half a head', 'Internal', '0000'],
    ['half a message', 'Internal', '000000000361'],
    ['two messages', 'Internal', '0000000001610000000000'],
    ['a compressed message', 'NotImplemented', '010000000161'],
    ['a message of 17 MiB', 'ResourceExhausted', '0001100000'],
  ] as const) {
    test(`${what}: ${kind}`, () => {
      assert.throws(
        () => {
          const reader = new MessageReader();
          reader.push(Buffer.from(bytes, 'hex'));
          reader.whole();
        },
        { kind },
      );
    });
  }
});
