import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metadata, status } from '@grpc/grpc-js';
import fc from 'fast-check';
import type { ErrorKind } from '../lib/errors.ts';
import { ERROR_KINDS, GantryError } from '../lib/errors.ts';
import { fromGrpc, toGrpc } from './error-mapping.ts';

const SEED = 53;

test('every kind has a code of its own and comes back', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ERROR_KINDS), fc.string({ minLength: 1, unit: 'grapheme' }), (kind, message) => {
      const back = fromGrpc(toGrpc(new GantryError(kind, message)));
      assert.equal(back.kind, kind);
      assert.equal(back.message, message);
    }),
    { seed: SEED },
  );
  assert.equal(new Set(ERROR_KINDS.map((kind) => toGrpc(new GantryError(kind, 'x')).code)).size, ERROR_KINDS.length);
});

test('every code comes back as it was, and nothing is ever OK', () => {
  const codes = Object.values(status).filter((code) => typeof code === 'number');
  for (const code of codes.filter((code) => code !== status.OK)) {
    assert.deepEqual(toGrpc(fromGrpc({ code, details: 'why' })), { code, details: 'why' });
  }
  assert.equal(fromGrpc({ code: status.OK, details: '' }).kind, 'Unknown');
});

test('the table of K53 and K54', () => {
  const table: [ErrorKind, status][] = [
    ['InvalidArgument', status.INVALID_ARGUMENT],
    ['AlreadyExists', status.ALREADY_EXISTS],
    ['NotFound', status.NOT_FOUND],
    ['Unavailable', status.UNAVAILABLE],
    ['FailedPrecondition', status.FAILED_PRECONDITION],
    ['NotImplemented', status.UNIMPLEMENTED],
    ['Canceled', status.CANCELLED],
    ['DeadlineExceeded', status.DEADLINE_EXCEEDED],
  ];
  for (const [kind, code] of table) {
    assert.equal(toGrpc(new GantryError(kind, 'x')).code, code);
    assert.equal(fromGrpc({ code, details: 'x' }).kind, kind);
  }
});

test('what is a status already passes unchanged, what is no error of ours is Unknown', () => {
  const remote = Object.assign(new Error('5 NOT_FOUND: gone'), {
    code: status.NOT_FOUND,
    details: 'gone',
    metadata: new Metadata(),
  });
  assert.deepEqual(toGrpc(remote), { code: status.NOT_FOUND, details: 'gone' });
  assert.equal(fromGrpc(remote).message, 'gone');
  assert.deepEqual(toGrpc(new TypeError('oops')), { code: status.UNKNOWN, details: 'oops' });
  assert.deepEqual(toGrpc('thrown text'), { code: status.UNKNOWN, details: 'thrown text' });
  const errno = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  assert.equal(toGrpc(errno).code, status.UNKNOWN);
  assert.equal(toGrpc(AbortSignal.abort().reason).code, status.CANCELLED);
});

test('an error without words gets the name of its class (K55)', () => {
  assert.equal(toGrpc(new GantryError('NotFound', '')).details, 'not found');
  assert.equal(fromGrpc({ code: status.FAILED_PRECONDITION, details: '' }).message, 'failed precondition');
});

test('no message can break the header that it travels in', () => {
  assert.doesNotThrow(() => encodeURI(toGrpc(new Error('half a pair: \ud800')).details));
  assert.ok(toGrpc(new Error('x'.repeat(1_000_000))).details.length <= 4_096);
  assert.doesNotThrow(() => encodeURI(toGrpc(new Error('😀'.repeat(10_000))).details));
});
