import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeWaitStatus, openPidfd } from './pidfd.ts';
import { isAlive, namespaceOf, parseProcessStat, processIdentity } from './procfs.ts';

const stat = (comm: string, state: string, exitCode: number): string =>
  `17 (${comm}) ${state} 1 ${Array.from({ length: 17 }, (_x, i) => i).join(' ')} 4711 ${'0 '.repeat(29)}${String(exitCode)}\n`;

test('a name with brackets and blanks', () => {
  assert.deepEqual(parseProcessStat(stat('a) R (b', 'S', 0)), {
    ...{ pid: 17, comm: 'a) R (b', state: 'S', ppid: 1, startTimeTicks: 4711 },
  });
  assert.equal(parseProcessStat('nonsense'), undefined);
});

test("a zombie's wait status", () => {
  assert.equal(parseProcessStat(stat('x', 'Z', 1280))?.exitCode, 1280);
  assert.deepEqual(decodeWaitStatus(1280), { kind: 'exited', code: 5 });
  assert.deepEqual(decodeWaitStatus(9), { kind: 'signaled', signal: 9, coreDumped: false });
  assert.deepEqual(decodeWaitStatus(0x8b), { kind: 'signaled', signal: 11, coreDumped: true });
});

test('this process, and a stranger with its pid', async () => {
  const identity = await processIdentity(process.pid);
  assert.ok(identity !== undefined);
  assert.equal(await isAlive(identity), true);
  assert.equal(await isAlive({ ...identity, startTimeTicks: identity.startTimeTicks + 1 }), false);
  {
    using pidfd = openPidfd(identity);
    assert.ok(pidfd !== undefined);
    assert.equal(pidfd.signal(0), true);
    assert.equal(pidfd.exitStatus(), undefined);
  }
  assert.equal(openPidfd({ ...identity, startTimeTicks: identity.startTimeTicks + 1 }), undefined);
  assert.equal(await processIdentity(0x3fffffff), undefined);
  assert.ok(await namespaceOf('self', 'mnt'));
});
