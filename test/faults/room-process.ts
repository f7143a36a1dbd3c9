import { mkdtemp, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execFile } from '../../src/linux/exec.ts';
import { isBelow, readMountinfo } from '../../src/linux/mountinfo.ts';
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
  const mounts = (await readMountinfo()).map(({ mountPoint }) => mountPoint);
  const kept = new Map<string, string>();
  // AppArmor's profiles are loaded through the second.
  for (const path of ['/sys/fs/cgroup', '/sys/kernel/security'].filter((each) =>
    mounts.some((at) => at === each || isBelow(at, each)),
  )) {
    const place = await mkdtemp(join(tmpdir(), 'gantry-sys-'));
    await must('mount', '--rbind', path, place);
    kept.set(path, place);
  }
  await must('mount', '-t', 'sysfs', 'sysfs', '/sys');
  for (const [path, place] of kept) {
    await must('mount', '--rbind', place, path);
    await must('umount', '--lazy', place);
    await rmdir(place);
  }
  await must('ip', 'link', 'set', 'lo', 'up');
  await writeFile('/proc/sys/net/ipv4/ip_forward', '0');
}

async function must(program: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await execFile(op, program, args);
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr.trim()}`);
}
