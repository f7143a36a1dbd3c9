/** Creates and starts one task, executes something in it if asked to, says so on stdout, and waits to be killed. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../../src/lib/clock.ts';
import { Cgroups, detectCgroups } from '../../../src/linux/cgroups.ts';
import { PacketSockets } from '../../../src/linux/packet-sockets.ts';
import { PidfdWatcher } from '../../../src/linux/pidfd-watcher.ts';
import { SafeRemove } from '../../../src/linux/safe-remove.ts';
import { treeRemover } from '../../../src/runtime/linux-parts.ts';
import { RuntimePaths } from '../../../src/runtime/store/paths.ts';
import { linuxProcessTable } from '../../../src/runtime/task/process-table.ts';
import { linuxTaskCgroups } from '../../../src/runtime/task/task-cgroups.ts';
import { TaskService } from '../../../src/runtime/task/task-service.ts';
import type { CreateTaskRequest } from '../../../src/runtime/task/task.ts';
import { op } from './task-fixture.ts';

const [, , inputFile = '', ...execArgv] = process.argv;
const { request, dir } = JSON.parse(await readFile(inputFile, 'utf8')) as {
  request: CreateTaskRequest;
  dir: string;
};
const service = new TaskService({
  clock: systemClock,
  processes: linuxProcessTable(new PidfdWatcher()),
  cgroups: linuxTaskCgroups(new Cgroups({ clock: systemClock, host: await detectCgroups() })),
  conmon: '/usr/bin/conmon',
  cp: '/bin/cp',
  exits: { written: join(dir, 'exits'), kept: join(dir, 'kept-exits') },
  paths: new RuntimePaths(dir, dir),
  trees: treeRemover(new SafeRemove({ clock: systemClock })),
  packets: new PacketSockets(),
});
const task = await service.create(op, request);
await service.start(op, task);
if (execArgv.length > 0) void service.exec(op, task, { argv: execArgv });
process.stdout.write(`${JSON.stringify(task)}\n`);
setInterval(() => undefined, 1_000);
