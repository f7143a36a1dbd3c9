import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alreadyExists, isKind, notFound } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import type { CgroupChange } from './cgroup-changes.ts';
import type { Cgroups } from './cgroups.ts';
import { UnitCgroups, type UnitCgroupsDeps } from './unit-cgroups.ts';

const ID = 'ef'.repeat(32);
const POD = '/g.slice/g-pod1.slice';
const SLICE = `${POD}/g-pod1-${ID}.slice`;
const SCOPE = `${SLICE}/gantry-x-${ID}.scope`;
const op = { signal: new AbortController().signal, log: silentLog };

const change = (path: string, file: string, before: string, value: string): CgroupChange => ({
  path,
  controller: 'memory',
  file,
  before,
  value,
});

/** Both sides note what they are asked; systemd fails as told. */
function room({ refuses, systemd = true, procs = [] }: { refuses?: Error; systemd?: boolean; procs?: number[] } = {}) {
  const done: string[] = [];
  const note = (what: string): Promise<void> => Promise.resolve(void done.push(what));
  const written = (changes: readonly CgroupChange[]): string =>
    changes.map(({ file, value }) => `${file}=${value}`).join(' ');
  const cgroups = {
    ensureParent: (path: string) => note(`mkdir ${path}`),
    setResources: () => note('limits'),
    exists: () => Promise.resolve(true),
    procs: () => Promise.resolve(procs),
    remove: (_op: unknown, path: string) => note(`rmdir ${path}`),
    oomKillCount: (path: string) => note(`count ${path}`).then(() => 1),
    limits: {
      apply: (changes: CgroupChange[]) =>
        changes.length === 0 ? Promise.resolve() : note(`write ${written(changes)}`),
      takeBack: (changes: CgroupChange[]) => note(`write back ${written(changes)}`),
    },
  } as unknown as Cgroups;
  const ask = (what: string): Promise<void> =>
    note(what).then(() => (refuses === undefined ? undefined : Promise.reject(refuses)));
  const units: UnitCgroupsDeps['units'] = {
    startSlice: (_op, name, { properties }) => ask(`start ${name} ${properties.flat().join(' ')}`.trimEnd()),
    setProperties: (_op, name, properties) =>
      refuses !== undefined && isKind(refuses, 'AlreadyExists')
        ? note(`set ${name} ${properties.flat().join(' ')}`)
        : ask(`set ${name} ${properties.flat().join(' ')}`),
    stop: (_op, ...names) => note(`stop ${names.join(' ')}`),
    list: (_op, name) => Promise.resolve([{ name, activeState: 'active' }]),
  };
  const clock = new FakeClock();
  const unitCgroups = new UnitCgroups({
    clock,
    cgroups,
    units,
    background: op,
    isSystemdHere: () => Promise.resolve(systemd),
  });
  return { unitCgroups, done };
}

test('a slice is made by systemd, a directory by us', async () => {
  const { unitCgroups, done } = room();
  await unitCgroups.create(op, POD, { memoryLimitBytes: 5 });
  await unitCgroups.create(op, '/gantry/pod1', { memoryLimitBytes: 5 });
  assert.deepEqual(done, ['start g-pod1.slice MemoryMax t 5', 'mkdir /gantry/pod1', 'limits']);
});

test('a slice that is there gets its limits', async () => {
  const { unitCgroups, done } = room({ refuses: alreadyExists('g-pod1.slice was already loaded') });
  await unitCgroups.create(op, POD, { memoryLimitBytes: 5 });
  assert.deepEqual(done, ['start g-pod1.slice MemoryMax t 5', 'set g-pod1.slice MemoryMax t 5']);
});

test('a container goes with the slice that is its own', async () => {
  const { unitCgroups, done } = room();
  await unitCgroups.remove(op, SCOPE);
  await unitCgroups.remove(op, POD);
  await unitCgroups.remove(op, '/gantry/pod1');
  assert.deepEqual(done, [
    `stop g-pod1-${ID}.slice`,
    `rmdir ${SLICE}`,
    'stop g-pod1.slice',
    `rmdir ${POD}`,
    'rmdir /gantry/pod1',
  ]);
});

test('a stop of systemd is a kill: nothing is stopped while processes are in it', async () => {
  const { unitCgroups, done } = room({ procs: [4_000_000] });
  await assert.rejects(unitCgroups.remove(op, SCOPE), (error) => isKind(error, 'Unavailable'));
  assert.deepEqual(done, []);
});

test('without systemd what looks like a unit is a directory', async () => {
  const { unitCgroups, done } = room({ systemd: false });
  await unitCgroups.remove(op, POD);
  await unitCgroups.applyLimits([change(POD, 'memory.max', '1', '2')]);
  assert.deepEqual(done, [`rmdir ${POD}`, 'write memory.max=2']);
});

test('what the kernel has counted is in the slice that outlives the scope', async () => {
  const { unitCgroups, done } = room();
  assert.equal(await unitCgroups.oomKillCount(SCOPE), 1);
  assert.deepEqual(done, [`count ${SLICE}`]);
});

test('a change of limits is in the files and in the unit', async () => {
  const { unitCgroups, done } = room();
  const changes = [change(SCOPE, 'cpu.max', 'max 100000', '12345 100000'), change(SCOPE, 'hugetlb.2MB.max', '0', '5')];
  await unitCgroups.applyLimits(changes);
  assert.deepEqual(done, [
    'write cpu.max=12345 100000 hugetlb.2MB.max=5',
    `set gantry-x-${ID}.scope CPUQuotaPerSecUSec t 123500 CPUQuotaPeriodUSec t 100000`,
    'write cpu.max=12345 100000',
  ]);
  done.length = 0;
  await unitCgroups.applyLimits([change(`/gantry/pod1/${ID}`, 'memory.max', '1', '2')]);
  assert.deepEqual(done, ['write memory.max=2']);
});

test('what systemd refuses is thrown, and taken back there and in the files', async () => {
  const changes = [change(SCOPE, 'memory.max', '1', '2')];
  await assert.rejects(room({ refuses: new Error('no') }).unitCgroups.applyLimits(changes), /no/);
  const { unitCgroups, done } = room();
  await unitCgroups.takeLimitsBack(changes);
  assert.deepEqual(done, ['write back memory.max=2', `set gantry-x-${ID}.scope MemoryMax t 1`]);
});

test('taking back what has gone is a success', async () => {
  const { unitCgroups } = room({ refuses: notFound('not loaded') });
  await unitCgroups.takeLimitsBack([change(SCOPE, 'memory.max', '1', '2')]);
});
