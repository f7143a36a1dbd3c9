import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CAPABILITIES, capabilitiesOfMask, decideCapabilities, DEFAULT_CAPABILITIES } from './capabilities.ts';

const all = CAPABILITIES;

test('nothing asked: the default set, as far as it is ours to give', () => {
  const { capabilities, refused } = decideCapabilities({}, all);
  assert.deepEqual(new Set(capabilities.bounding), new Set(DEFAULT_CAPABILITIES));
  assert.deepEqual(capabilities.ambient, []);
  assert.deepEqual(refused, []);
  assert.deepEqual(decideCapabilities({}, ['CAP_CHOWN']).capabilities.bounding, ['CAP_CHOWN']);
});

test('ALL first, then what is added, then what is dropped', () => {
  const bounding = (add: string[], drop: string[]): readonly string[] =>
    decideCapabilities({ add, drop }, all).capabilities.bounding;
  assert.deepEqual(bounding([], ['ALL']), []);
  assert.deepEqual(bounding(['net_admin'], ['ALL']), ['CAP_NET_ADMIN']);
  assert.deepEqual(
    bounding(['ALL'], ['CAP_SYS_ADMIN']),
    all.filter((name) => name !== 'CAP_SYS_ADMIN'),
  );
  assert.equal(bounding(['CHOWN'], ['chown']).includes('CAP_CHOWN'), false);
});

test('privileged has all there is, whatever is dropped', () => {
  const { capabilities } = decideCapabilities({ privileged: true, drop: ['ALL', 'CHOWN'] }, all);
  assert.deepEqual(capabilities.bounding, all);
});

test('ambient ones are in every set', () => {
  const { capabilities } = decideCapabilities({ drop: ['ALL'], addAmbient: ['NET_BIND_SERVICE'] }, all);
  for (const set of Object.values(capabilities)) assert.deepEqual(set, ['CAP_NET_BIND_SERVICE']);
});

test('what is not ours to give is named, a name that does not exist refused', () => {
  assert.deepEqual(decideCapabilities({ add: ['SYS_RESOURCE'] }, ['CAP_CHOWN']).refused, ['CAP_SYS_RESOURCE']);
  assert.deepEqual(decideCapabilities({ add: ['ALL'] }, ['CAP_CHOWN']).refused, []);
  assert.throws(() => decideCapabilities({ add: ['NO_SUCH'] }, all), /NO_SUCH: no such capability/);
});

test('never more than the bounding set, never what was dropped', () => {
  const names = fc.subarray([...all, 'ALL']);
  fc.assert(
    fc.property(names, names, names, fc.subarray([...all]), (add, drop, addAmbient, bounding) => {
      const { capabilities } = decideCapabilities({ add, drop, addAmbient }, bounding);
      for (const set of Object.values(capabilities) as readonly (readonly string[])[]) {
        assert.ok(set.every((name) => bounding.includes(name) && !drop.includes(name)));
        assert.ok(set.every((name) => capabilities.bounding.includes(name)));
      }
    }),
  );
});

test('a mask of the process table', () => {
  assert.deepEqual(capabilitiesOfMask('0000000000000000'), []);
  assert.deepEqual(capabilitiesOfMask('0000000000000021'), ['CAP_CHOWN', 'CAP_KILL']);
  assert.deepEqual(capabilitiesOfMask('000001ffffffffff'), all);
});
