import assert from 'node:assert/strict';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../src/lib/clock.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { HangSafe } from '../../../src/linux/hang-safe.ts';
import { HostFiles } from '../../../src/linux/host-files.ts';
import { exitFolder } from '../../../src/runtime/task/exit-folder.ts';
import type { ExitStatus } from '../../../src/runtime/task/exit-status.ts';
import { ExitWatcher } from '../../../src/runtime/task/exit-watcher.ts';
import { LogLooks } from '../../../src/runtime/task/log-looks.ts';
import { needsRoot, op, TaskFixture, until } from './task-fixture.ts';

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  assert.equal(code, 0, stderr);
}

describe('logs on a disk of one megabyte', needsRoot, () => {
  let fixture: TaskFixture;
  let disk: string;
  let watcher: ExitWatcher;
  const told = new Map<string, ExitStatus>();
  const hangSafe = new HangSafe({ clock: systemClock });

  before(async () => {
    fixture = await TaskFixture.make();
    disk = join(fixture.dir, 'logs');
    await run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'test-disk', disk);
    const looks = new LogLooks(systemClock, new HostFiles(hangSafe));
    watcher = new ExitWatcher({
      clock: systemClock,
      log: silentLog,
      processes: fixture.processes,
      exits: exitFolder(fixture.exitFolders),
      logLoss: (lookOp, path) => looks.lossIn(lookOp, path),
      onExit: (id, status) => told.set(id, status),
      onCorrection: (id, status) => told.set(id, status),
    });
    await watcher.start();
  });
  after(async () => {
    await watcher.close();
    hangSafe.close();
    await run('umount', '-l', disk);
    await fixture[Symbol.asyncDispose]();
  });

  /** Runs it to its end. */
  const shell = async (script: string): Promise<{ readonly status: ExitStatus; readonly logBytes: number }> => {
    const task = await fixture.create({ argv: ['sh', '-c', script] });
    watcher.arm(task);
    await fixture.service.start(op, task);
    const status = await until('an exit', () => told.get(task.id));
    const { size } = await stat(fixture.logOf(task.id));
    await fixture.service.delete(op, task);
    await run('rm', fixture.logOf(task.id));
    return { status, logBytes: size };
  };

  test('what fits is whole', async () => {
    const { status, logBytes } = await shell('echo last; exit 9');
    assert.ok(logBytes > 0);
    assert.deepEqual([status.kind === 'exited' && status.code, status.logLoss], [9, undefined]);
  });

  test('written until nothing fits: the end is missing, and that is said', async () => {
    const { status, logBytes } = await shell('yes 0123456789 | head -c 3000000; echo end; exit 9');
    assert.ok(logBytes > 900_000 && logBytes < 1_100_000, String(logBytes));
    assert.deepEqual([status.kind === 'exited' && status.code, status.logLoss], [9, 'its file system is full']);
  });

  test('full before: nothing of it is there, and that is said', async () => {
    const ballast = join(disk, 'ballast');
    {
      await using file = await open(ballast, 'a');
      await assert.rejects(async () => {
        for (;;) await file.appendFile(Buffer.alloc(4_096));
      }, /ENOSPC/);
    }
    const { status, logBytes } = await shell('echo last; exit 9');
    assert.equal(logBytes, 0);
    assert.deepEqual([status.kind === 'exited' && status.code, status.logLoss], [9, 'its file system is full']);
    await run('rm', ballast);
  });

  test('full for a while: a line that was cut says so still', async () => {
    // Of long lines, so that hardly any of them ends just where the disk does.
    const script = `yes ${'x'.repeat(1_000)} | head -c 3000000; exec sleep 1000`;
    const task = await fixture.create({ argv: ['sh', '-c', script] });
    watcher.arm(task);
    await fixture.service.start(op, task);
    await until('the monitor to have read and thrown away all of it', async () => {
      const io = await readFile(`/proc/${String(task.conmonPid)}/io`, 'utf8');
      const isIdle = (await fixture.processes.view(task.conmonPid))?.state === 'S';
      return (Number(/^rchar: (\d+)/.exec(io)?.[1]) >= 3_000_000 && isIdle) || undefined;
    });
    await run('mount', '-o', 'remount,size=4m', disk);
    await fixture.service.signal(op, task, 9);
    const status = await until('an exit', () => told.get(task.id));
    assert.equal(status.logLoss, 'its last line is cut');
    await fixture.service.delete(op, task);
  });
});
