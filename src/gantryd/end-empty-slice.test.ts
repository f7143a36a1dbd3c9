import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../lib/log.ts';
import { endEmptySlice } from './end-empty-slice.ts';

const op = { signal: new AbortController().signal, log: silentLog };

interface Slice {
  readonly path: string;
  readonly children?: readonly string[];
  readonly pids?: readonly number[];
}

/** What was stopped. */
async function ended(parent: string, slice: Slice, systemd = true): Promise<string[]> {
  const stopped: string[] = [];
  const deps = {
    cgroups: {
      exists: (path: string) => Promise.resolve(path === slice.path),
      children: () => Promise.resolve([...(slice.children ?? [])]),
      procs: () => Promise.resolve([...(slice.pids ?? [])]),
    },
    units: {
      stop: (_op: unknown, ...names: readonly string[]) => {
        stopped.push(...names);
        return Promise.resolve();
      },
    },
    isSystemdHere: () => Promise.resolve(systemd),
  };
  await endEmptySlice(op, deps, parent);
  return stopped;
}

test('the slice that was the parent with the other driver goes when nothing is in it', async () => {
  assert.deepEqual(await ended('/gantry', { path: '/gantry.slice' }), ['gantry.slice']);
  assert.deepEqual(await ended('/a/b-c', { path: '/a.slice/a-b_c.slice' }), ['a-b_c.slice']);
  assert.deepEqual(await ended('/gantry', { path: '/other.slice' }), []);
  assert.deepEqual(await ended('/gantry', { path: '/gantry.slice' }, false), [], 'no systemd');
  assert.deepEqual(await ended('/gantry', { path: '/gantry.slice', children: ['gantry-pod1.slice'] }), []);
  assert.deepEqual(await ended('/gantry', { path: '/gantry.slice', pids: [7] }), []);
});
