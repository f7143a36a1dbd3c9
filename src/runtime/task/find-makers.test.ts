import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { findMakers, haltMakers, isMakerOf, withDescendants, type MakersAt } from './find-makers.ts';

const op = { signal: new AbortController().signal, log: silentLog };
const task = { id: 'abc', bundleDir: '/run/b/abc' };

test('a maker names both the bundle folder and the id', () => {
  assert.equal(isMakerOf(['conmon', '--cid', 'abc', '--bundle', '/run/b/abc'], task), true);
  assert.equal(isMakerOf(['runc', '--root', '/r', 'create', '--bundle', '/run/b/abc', 'abc'], task), true);
  assert.equal(isMakerOf(['conmon', '--cid', 'abc', '--bundle', '/run/b/abd'], task), false);
  assert.equal(isMakerOf(['conmon', '--cid', 'abd', '--bundle', '/run/b/abc'], task), false);
  assert.equal(isMakerOf(['vi', '/run/b/abc', 'abc'], task), false);
  assert.equal(isMakerOf([], task), false);
});

test('descendants come after their parents, strangers not at all', () => {
  const views = [
    { pid: 5, ppid: 4 },
    { pid: 4, ppid: 3 },
    { pid: 3, ppid: 1 },
    { pid: 9, ppid: 1 },
    { pid: 6, ppid: 3 },
  ];
  assert.deepEqual(
    withDescendants(views, new Set([3])).map((view) => view.pid),
    [3, 4, 6, 5],
  );
  assert.deepEqual(withDescendants(views, new Set()), []);
});

interface Stranger {
  readonly pid: number;
  readonly ppid?: number;
  readonly comm: string;
  readonly argv?: readonly string[] | 'hangs';
}

const MAKER = ['--cid', 'abc', '--bundle', '/run/b/abc'];

/** Processes 10 to 19 are in the monitors' cgroup. */
function at(
  table: () => readonly Stranger[],
  signal: MakersAt['processes']['signal'] = () => Promise.resolve(true),
): MakersAt {
  const found = (pid: number): Stranger | undefined => table().find((one) => one.pid === pid);
  return {
    processes: {
      view: (pid) => {
        const one = found(pid);
        return Promise.resolve(one && { pid, ppid: one.ppid ?? 1, comm: one.comm, state: 'S', startTimeTicks: pid });
      },
      signal,
    },
    cgroups: {
      procs: () => Promise.resolve(table().flatMap(({ pid }) => (pid >= 10 && pid < 20 ? [pid] : []))),
    },
    conmon: '/usr/bin/conmon',
    monitorCgroup: '/monitors',
    pids: () => Promise.resolve(table().map(({ pid }) => pid)),
    argvOf: (pid) => {
      const argv = found(pid)?.argv;
      return argv === 'hangs' ? new Promise(() => undefined) : Promise.resolve(argv);
    },
  };
}

test('a stranger whose command line cannot be read holds nobody up', async () => {
  const table: Stranger[] = [
    { pid: 5, comm: 'tar', argv: 'hangs' },
    { pid: 6, comm: 'sh', argv: MAKER },
    { pid: 11, comm: 'crun', argv: MAKER },
    { pid: 12, comm: 'conmon', argv: ['--cid', 'abd', '--bundle', '/run/b/abd'] },
    { pid: 30, comm: 'conmon', argv: MAKER },
    { pid: 31, ppid: 30, comm: 'hook', argv: 'hangs' },
  ];
  const found = await findMakers(
    op,
    at(() => table),
    task,
  );
  assert.deepEqual(
    found.map(({ pid }) => pid),
    [11, 30, 31],
  );
});

test('an OCI runtime that has lost its monitor is found by its name, wherever it is', async () => {
  const table: Stranger[] = [
    { pid: 5, comm: 'runc', argv: ['runc', 'create', '--bundle', '/run/b/abd', 'abd'] },
    { pid: 6, comm: 'sh', argv: 'hangs' },
    { pid: 7, comm: 'runc', argv: ['runc', 'create', '--bundle', '/run/b/abc', 'abc'] },
    { pid: 8, ppid: 7, comm: 'runc:[2:INIT]', argv: 'hangs' },
  ];
  const runtime = { name: 'runc', path: '/usr/sbin/runc', root: '/r' };
  const found = await findMakers(
    op,
    at(() => table),
    { ...task, runtime },
  );
  assert.deepEqual(
    found.map(({ pid }) => pid),
    [7, 8],
  );
});

test('a monitor whose command line cannot be read: the search ends with its caller', async () => {
  const controller = new AbortController();
  const search = haltMakers(
    { ...op, signal: controller.signal },
    at(() => [{ pid: 11, comm: 'runc', argv: 'hangs' }]),
    task,
  );
  setImmediate(() => controller.abort(new Error('enough')));
  await assert.rejects(search, /enough/);
});

test('what goes on forking does not keep the search going for ever', async () => {
  const table: Stranger[] = [{ pid: 11, comm: 'conmon', argv: MAKER }];
  const stopped: number[] = [];
  const halted = await haltMakers(
    op,
    at(
      () => table,
      ({ pid }) => {
        stopped.push(pid);
        table.push({ pid: 1000 + table.length, ppid: 11, comm: 'bomb' });
        return Promise.resolve(true);
      },
    ),
    task,
  );
  assert.deepEqual(
    halted.map(({ pid }) => pid),
    stopped,
  );
  assert.ok(stopped.length > 10, 'it is stopped again and again');
});
