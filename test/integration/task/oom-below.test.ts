import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExitStatus } from '../../../src/runtime/task/exit-status.ts';
import type { Task } from '../../../src/runtime/task/task.ts';
import { needsRoot, op, TaskFixture } from './task-fixture.ts';

const EAT = 'tail -c 200000000 /dev/zero';
/** `$n`: a cgroup below the container's own. */
const MAKE_N =
  'n=/sys/fs/cgroup; if [ -d $n/memory ]; then n=$n/memory/n; else n=$n$(sed s/^0::// /proc/self/cgroup)/n; fi; mkdir $n';

const spec = { resources: { memoryLimitBytes: 24 << 20, memorySwapLimitBytes: 24 << 20 } };

function told(status: ExitStatus): unknown[] {
  return status.kind === 'exited' ? [status.code, status.oom] : [status];
}

async function killedByNobody(fixture: TaskFixture, task: Task): Promise<unknown[]> {
  process.kill(task.pid, 'SIGKILL');
  return told(await fixture.exit(task.id));
}

/** Names of the groups that execs have left below the container's. */
/** An exec answers first and cleans up then: what is the same for half a second is what stays. */
async function settledGroupsOf(fixture: TaskFixture, task: Task): Promise<string[]> {
  for (let last: string | undefined; ;) {
    const groups = (await fixture.cgroups.children(task.cgroupPath)).filter((name) => name.startsWith('exec-'));
    if (last === groups.join()) return groups;
    last = groups.join();
    await new Promise((next) => setTimeout(next, 500));
  }
}

await test('out of memory in a cgroup that the container has made', needsRoot, async () => {
  await using fixture = await TaskFixture.make();
  const privileged = { spec: { ...spec, privileged: true } };
  const init = await fixture.shell(`${MAKE_N}; echo $$ > $n/cgroup.procs; exec ${EAT}`, privileged);
  assert.deepEqual(told(await fixture.exit(init.id)), [137, 'init']);
  const child = await fixture.shell(
    `${MAKE_N}; export n; sh -c 'echo $$ > $n/cgroup.procs; exec ${EAT}'; exit 3`,
    privileged,
  );
  assert.deepEqual(told(await fixture.exit(child.id)), [3, 'child']);
});

await test(
  'out of memory in an exec: known when it is over, and its cgroup stays only where nothing else tells of it',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const task = await fixture.shell('sleep 1000', { spec });
    for (let round = 0; round < 2; round++) {
      assert.equal((await fixture.service.exec(op, task, { argv: EAT.split(' ') })).exitCode, 137);
    }
    const kept = await settledGroupsOf(fixture, task);
    await fixture.service.exec(op, task, { argv: ['true'] });
    assert.deepEqual(await settledGroupsOf(fixture, task), kept, 'an exec without it leaves no group');
    assert.deepEqual(await killedByNobody(fixture, task), [137, 'init']);
    const counted = await fixture.shell(`${EAT}; sleep 1000`, { spec });
    await fixture.running(counted, 'sleep 1000');
    await fixture.service.exec(op, counted, { argv: EAT.split(' ') });
    assert.deepEqual(await settledGroupsOf(fixture, counted), [], 'what init has itself counted needs no other');
  },
);
