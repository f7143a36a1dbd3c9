import { mkdtemp, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execFile } from '../../src/linux/exec.ts';
import { op } from '../integration/runtime/runtime-fixture.ts';
import { FaultRoom } from './fault-room.ts';
import type { FaultLife } from './lives.ts';

/** A room in a process of its own: a life per line comes in, its outcome goes out. Ends, and tidies up, when nothing comes any more. */
await furnishNamespaces();
await using room = await FaultRoom.open();
for await (const line of createInterface({ input: process.stdin })) {
  const outcome = await room.run(JSON.parse(line) as FaultLife);
  process.stdout.write(`${JSON.stringify(outcome)}\n`);
}

/**
 * This process has network and mount namespaces to itself, which it was started in. /sys still shows the network of whoever mounted it, and
 * forwarding is as it is on the host.
 */
async function furnishNamespaces(): Promise<void> {
  const kept = await mkdtemp(join(tmpdir(), 'gantry-cgroup-'));
  await must('mount', '--rbind', '/sys/fs/cgroup', kept);
  await must('mount', '-t', 'sysfs', 'sysfs', '/sys');
  await must('mount', '--rbind', kept, '/sys/fs/cgroup');
  await must('umount', '--lazy', kept);
  await rmdir(kept);
  await must('ip', 'link', 'set', 'lo', 'up');
  await writeFile('/proc/sys/net/ipv4/ip_forward', '0');
}

async function must(program: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr.trim()}`);
}
