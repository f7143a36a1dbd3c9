import assert from 'node:assert/strict';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { execFile } from '../../../src/linux/exec.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, stderr);
}

test(
  'an exit that finds no room for its file is told by the kernel where it remembers, else as unknown',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const exits = join(fixture.dir, 'exits');
    await run('mount', '-t', 'tmpfs', '-o', 'size=16k', 'test-disk', exits);
    try {
      {
        await using ballast = await open(join(exits, 'ballast'), 'a');
        await assert.rejects(async () => {
          for (;;) await ballast.appendFile(Buffer.alloc(1_024));
        }, /ENOSPC/);
      }
      const task = await fixture.shell('exit 7');
      const status = await fixture.exit(task.id);
      assert.equal(status.logMayBeIncomplete, true);
      if (status.kind === 'exited') assert.equal(status.code, 7);
      else assert.match(status.reason, /left no exit status/);
      await until('the monitor to be gone', async () =>
        (await fixture.processes.view(task.conmonPid)) === undefined ? true : undefined,
      );
      assert.equal(await fixture.service.readExit(task.id), undefined);
      await fixture.service.delete(op, task);
      assert.deepEqual(await readdir(exits), ['ballast']);
    } finally {
      await run('umount', '-l', exits);
    }
  },
);
