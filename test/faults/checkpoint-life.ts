import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ContainerState } from '../../src/cri/gen/api.ts';
import { execFile } from '../../src/linux/exec.ts';
import { container, op, pod } from '../integration/runtime/runtime-fixture.ts';
import type { TempRoot } from '../support/temp-root.ts';
import type { FaultDaemon } from './fault-daemon.ts';

/** Counts, for whoever wants to see that it runs, and ends when it is asked to. */
const COUNTING = 'trap "exit 9" TERM; i=0; while :; do i=$((i+1)); echo $i > /count; sleep 0.05; done';
const EXIT_CODE = 9;
const LOOK_AGAIN_MS = 100;
const PATIENCE_MS = 60_000;

/**
 * A container that is checkpointed while it runs and ended afterwards, each call repeated until it is answered. Throws when the archive is not
 * whole, something is left beside it, or the container does not go on and end as if nothing had been.
 */
export async function liveCheckpoint(daemon: FaultDaemon, root: TempRoot, name: string): Promise<void> {
  const sandboxConfig = pod(root, name);
  const { podSandboxId } = await daemon.ask(({ runtime }) =>
    runtime.runPodSandbox(op, { config: sandboxConfig, runtimeHandler: '' }),
  );
  const config = container('main', ['sh', '-c', COUNTING]);
  const request = { podSandboxId, config, sandboxConfig };
  const { containerId } = await daemon.ask(({ runtime }) => runtime.createContainer(op, request));
  await daemon.ask(({ runtime }) => runtime.startContainer(op, { containerId }));
  await goesOn(daemon, containerId);

  const folder = join(root.dir, `checkpoints-${name}`);
  const location = join(folder, 'main.tar');
  await mkdir(folder);
  await daemon.ask(({ runtime }) => runtime.checkpointContainer(op, { containerId, location, timeout: 0n }));
  await goesOn(daemon, containerId);
  await eventually(daemon, 'nothing but the archive', async () => (await readdir(folder)).join() === 'main.tar');
  const { code, stdout, stderr } = await execFile(op, 'tar', ['-tf', location]);
  assert.equal(code, 0, stderr);
  for (const file of ['checkpoint/inventory.img', 'config.dump', 'spec.dump', 'rootfs-diff.tar']) {
    assert.ok(stdout.split('\n').includes(file), `${file} in ${stdout}`);
  }

  await daemon.ask(({ runtime }) => runtime.stopContainer(op, { containerId, timeout: 100n }));
  const { status } = await daemon.ask(({ runtime }) => runtime.containerStatus(op, { containerId, verbose: false }));
  assert.equal(status?.state, ContainerState.CONTAINER_EXITED);
  assert.equal(status.exitCode, EXIT_CODE, status.message);
  await daemon.ask(({ runtime }) => runtime.stopPodSandbox(op, { podSandboxId }));
  await daemon.ask(({ runtime }) => runtime.removePodSandbox(op, { podSandboxId }));
}

async function goesOn(daemon: FaultDaemon, containerId: string): Promise<void> {
  const count = async (): Promise<number> => {
    const request = { containerId, cmd: ['cat', '/count'], timeout: 30n };
    const { stdout } = await daemon.ask(({ runtime }) => runtime.execSync(op, request));
    return Number(stdout.toString('utf8'));
  };
  const then = await count();
  await eventually(daemon, 'its going on', async () => (await count()) > then);
}

async function eventually(daemon: FaultDaemon, what: string, look: () => Promise<boolean>): Promise<void> {
  const startMs = performance.now();
  while (!(await look())) {
    if (daemon.quietSinceMs(startMs) > PATIENCE_MS) assert.fail(`${what} did not come about`);
    await new Promise((next) => setTimeout(next, LOOK_AGAIN_MS));
  }
}
