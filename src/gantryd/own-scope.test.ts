import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alreadyExists, isKind } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { joinOwnScope } from './own-scope.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const own = { scope: '/g.slice/g-daemon.scope', daemon: '/g.slice/g-daemon.scope/daemon' };

/** `states`: what systemd says of the scope at each look, from then on the last one. */
function room({ there, states }: { readonly there: boolean; readonly states: readonly string[] }) {
  const done: string[] = [];
  const left = [...states];
  let exists = there;
  let active = there;
  const clock = new FakeClock();
  const deps = {
    clock,
    cgroups: {
      exists: () => Promise.resolve(exists),
      createBelow: () => Promise.resolve(exists),
      moveProcess: () => Promise.resolve(void done.push('moved')),
    },
    units: {
      startScope: () => {
        done.push('start');
        if (active) return Promise.reject(alreadyExists('g-daemon.scope was already loaded'));
        exists = active = true;
        return Promise.resolve();
      },
      list: () => {
        const activeState = (left.length > 1 ? left.shift() : left[0]) ?? '';
        active = activeState === 'active';
        return Promise.resolve(activeState === '' ? [] : [{ name: 'g-daemon.scope', activeState }]);
      },
    },
  };
  return { deps, done, clock };
}

test('the first daemon makes its scope, a later one joins that of its monitors', async () => {
  const first = room({ there: false, states: ['active'] });
  await joinOwnScope(op, first.deps, own);
  assert.deepEqual(first.done, ['start', 'moved']);
  const later = room({ there: true, states: ['active'] });
  await joinOwnScope(op, later.deps, own);
  assert.deepEqual(later.done, ['moved']);
});

test('a scope that ended while it was joined is made again', async () => {
  const { deps, done, clock } = room({ there: true, states: ['', 'active'] });
  const joining = joinOwnScope(op, deps, own);
  await clock.advance(1_000);
  await joining;
  assert.deepEqual(done, ['moved', 'start', 'moved']);
});

test('one that comes to no rest is said', async () => {
  const { deps, clock } = room({ there: true, states: ['deactivating'] });
  const joining = assert.rejects(joinOwnScope(op, deps, own), (error) => isKind(error, 'Unavailable'));
  await clock.advance(60_000);
  await joining;
});
