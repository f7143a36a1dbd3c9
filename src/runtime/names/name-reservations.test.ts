import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { NameReservations, type ReserveRequest } from './name-reservations.ts';
import { stageOf } from './stage-of.ts';

const request = (more: Partial<ReserveRequest<string>>): ReserveRequest<string> => ({
  name: 'n',
  id: '1',
  fingerprint: 'f',
  make: () => Promise.resolve('made'),
  keepsName: () => false,
  reuse: () => undefined,
  describe: () => 'ready',
  ...more,
});
const taken = (error: unknown): boolean => isKind(error, 'AlreadyExists');

test('the same request joins the one that runs; another configuration is refused', async () => {
  const names = new NameReservations<string>('sandbox');
  const { promise, resolve } = Promise.withResolvers<string>();
  let makes = 0;
  const make = (): Promise<string> => {
    makes++;
    return promise;
  };
  const first = names.reserve(request({ make }));
  const second = names.reserve(request({ id: '2', make }));
  const other = request({ id: '3', fingerprint: 'other', make, describe: () => 'creating, for 12 s' });
  await assert.rejects(names.reserve(other), (error) => {
    assert.ok(taken(error));
    return /reserved for 1 \(creating, for 12 s\)/.test(String(error));
  });
  resolve('one');
  assert.deepEqual(await Promise.all([first, second]), ['one', 'one']);
  assert.equal(makes, 1);
});

test('a name is free after a failure, unless something is left under it', async () => {
  const names = new NameReservations<string>('sandbox');
  const fail = (): Promise<string> => Promise.reject(new Error('no'));
  await assert.rejects(names.reserve(request({ make: fail })));
  await assert.rejects(names.reserve(request({ id: '2', make: fail, keepsName: () => true })));
  await assert.rejects(names.reserve(request({ id: '3' })), /taken by 2 \(ready\)/);
  names.release('n', '1');
  await assert.rejects(names.reserve(request({ id: '3' })), taken);
  names.release('n', '2');
  assert.equal(await names.reserve(request({ id: '3' })), 'made');
});

test('a finished object is handed out again only where its owner says so', async () => {
  const names = new NameReservations<string>('sandbox');
  names.take('n', '1');
  await assert.rejects(names.reserve(request({ id: '2' })), taken);
  assert.equal(
    await names.reserve(request({ id: '2', reuse: (id) => (id === '1' ? 'the first' : undefined) })),
    'the first',
  );
});

test('who has a name is told with its stage and how long it has been there', () => {
  const clock = new FakeClock();
  const status = { state: { kind: 'creating' }, createdAtWallMs: clock.wallMs() - 12_400 };
  assert.equal(stageOf(clock, { status }), 'creating, for 12 s');
  clock.stepWall(-60_000);
  assert.equal(stageOf(clock, { status }), 'creating, for 0 s');
  assert.equal(stageOf(clock, undefined), undefined);
});
