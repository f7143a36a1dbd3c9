import assert from 'node:assert/strict';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { ContainerState, NamespaceMode, Protocol, PortMapping } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { execFile } from '../../../src/linux/exec.ts';
import { mountsBelow, readMountinfo } from '../../../src/linux/mountinfo.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { WrappedOciRuntime } from '../../support/wrapped-oci-runtime.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const skip = process.getuid?.() !== 0 && 'needs root';

/** The first pod brings along what stays for all later ones. */
async function beginLeakCheck(f: RuntimeFixture): Promise<LeakCheck> {
  await f.endPod(await f.runSandbox(pod(f.root, 'first', { network: NamespaceMode.POD })));
  return await LeakCheck.begin(f.root.leakRoots());
}

async function unmountBelow(folder: string): Promise<void> {
  for (const { mountPoint } of mountsBelow(await readMountinfo(), folder).toReversed()) {
    const { code, stderr } = await execFile(op, 'umount', [mountPoint]);
    assert.equal(code, 0, stderr);
  }
}

test(
  'the state folder is lost while pods run: all that they have is given back when they are removed',
  { skip },
  async () => {
    await using f = await RuntimeFixture.make();
    const leaks = await beginLeakCheck(f);
    const config = pod(f.root, 'main', { network: NamespaceMode.POD, pid: NamespaceMode.POD });
    const sandboxId = await f.runSandbox(config);
    const alive = await f.runContainer(sandboxId, config, container('alive', ['sleep', '100000']));
    await f.runContainer(sandboxId, config, container('ended', ['true']));
    await f.createContainer(sandboxId, config, container('never', ['true']));
    const stopped = await f.runSandbox(pod(f.root, 'stopped', { network: NamespaceMode.POD }));
    await f.cri.stopPodSandbox(op, { podSandboxId: stopped });
    const gone = join(f.root.dir, 'gone');
    // Twice: the second process finds a sandbox that is not READY already.
    for (let turn = 0; turn < 2; turn++) {
      await f.restart(async () => {
        await rename(f.root.state, `${gone}-${String(turn)}`);
        await mkdir(f.root.state);
      });
      await f.runtime.recovered;
      assert.equal((await f.status(alive)).state, ContainerState.CONTAINER_RUNNING);
    }
    await f.cri.stopPodSandbox(op, { podSandboxId: sandboxId });
    await leaks.assertNone({ only: ['processes', 'network namespaces', 'CNI addresses', 'links', 'iptables rules'] });
    // What was mounted in the folder went along with it, and keeps the writable layers, by name, until it is unmounted.
    for (let turn = 0; turn < 2; turn++) {
      await unmountBelow(`${gone}-${String(turn)}`);
      await rm(`${gone}-${String(turn)}`, { recursive: true });
    }
    for (const podSandboxId of [sandboxId, stopped]) await f.cri.removePodSandbox(op, { podSandboxId });
    assert.deepEqual(await f.runtime.inspector.pendingWork(op), []);
    await leaks.assertNone();
  },
);

/** Whole as JSON, and without what releasing such a thing needs beside its key. */
const HALF = '{"half":true}';
const NEED_DATA: readonly string[] = ['task', 'cni'];

interface Row {
  readonly owner: string;
  readonly kind: string;
  readonly key: string;
}

/** Puts something else in place of what the ledger's rows say, while no daemon runs; answers which. */
function damageLedger(f: RuntimeFixture, column: 'data' | 'state' | 'seq', value: string): Row[] {
  return [join(f.root.data, 'runtime.db'), join(f.root.state, 'volatile.db')].flatMap((path) => {
    using db = new DatabaseSync(path);
    const rows = db.prepare('SELECT owner, kind, key FROM ledger').all() as unknown as Row[];
    db.prepare(`UPDATE ledger SET ${column} = ?`).run(value);
    return rows;
  });
}

for (const [column, value] of [
  ['data', '{{'],
  ['data', HALF],
  ['state', 'odd'],
  ['seq', 'abc'],
] as const) {
  test(
    `the ledger's ${column} says ${value}: gantryd starts, says so, and everything is given back`,
    { skip },
    async () => {
      let oci: WrappedOciRuntime | undefined;
      await using f = await RuntimeFixture.make(async ({ dir }) => {
        oci = await WrappedOciRuntime.make(join(dir, 'oci'));
        return { ociRuntime: oci.path };
      });
      const leaks = await beginLeakCheck(f);
      const mapped = PortMapping.fromPartial({ protocol: Protocol.TCP, containerPort: 80, hostPort: 20_080 });
      const options = { network: NamespaceMode.POD, pid: NamespaceMode.POD, portMappings: [mapped] };
      const config = pod(f.root, 'main', options);
      const sandboxId = await f.runSandbox(config);
      const alive = await f.runContainer(sandboxId, config, container('alive', ['sleep', '100000']));
      const never = await f.createContainer(sandboxId, config, container('never', ['true']));
      // Ended, and not cleaned up yet: its mount, monitor and group are there, and no record says so.
      const left = await f.createContainer(sandboxId, config, container('left', ['true']));
      await oci?.hang('delete', left);
      await f.cri.startContainer(op, { containerId: left });
      await f.waitFor(left, ({ state }) => state === ContainerState.CONTAINER_EXITED);
      const before = await f.status(alive);

      const damaged: Row[] = [];
      await f.restart(async () => {
        damaged.push(...damageLedger(f, column, value));
        await oci?.work('delete', left);
      });
      await f.runtime.recovered;

      assert.deepEqual(await f.status(alive), before);
      assert.equal((await f.exec(alive, 'echo', 'here')).stdout, 'here\n');
      assert.equal((await f.status(left)).exitCode, 0);
      for (const [subject, owner] of [
        [{ sandboxId }, `sandbox/${sandboxId}`],
        ...[alive, never, left].map((id) => [{ containerId: id }, `container/${id}`] as const),
      ] as const) {
        const rows = damaged.filter((row) => row.owner === owner).map(({ kind }) => kind);
        assert.ok(rows.length > 0, owner);
        const kinds = value === HALF ? rows.filter((kind) => NEED_DATA.includes(kind)) : rows;
        const { entries } = await f.runtime.inspector.explain(op, { subject });
        for (const kind of kinds) {
          const told = entries.some(({ message }) => message.includes(`the ledger's entry of its ${kind}`));
          assert.ok(told, `${kind} in ${JSON.stringify(entries, undefined, 1)}`);
        }
      }
      await f.endPod(sandboxId);
      for (let look = 0; (await f.runtime.inspector.pendingWork(op)).length > 0 && look < 300; look++)
        await systemClock.sleep(100);
      assert.deepEqual(await f.runtime.inspector.pendingWork(op), []);
      await leaks.assertNone();
    },
  );
}
