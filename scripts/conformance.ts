/**
 * Runs the CRI validation suite (critest, newest preferred; on the PATH, or named by CRITEST) and tells what passed, failed and was skipped.
 * Needs root. Exit code 0 only when no spec failed and, on Gantry, none was skipped but those that docs/conformance.md names.
 *
 * usage: npm run conformance -- [--mirror URL|DIR] [--socket PATH] [--parallel N] [--focus RE] … [--skip RE] … [--seed N] [--runs N]
 *   [--oci-runtime auto|crun|runc|PATH] [--cgroup-driver cgroupfs|systemd] [--websocket] [--timeout SECONDS] [--report DIR]
 *   --mirror       where the images of every registry are: a registry (http://127.0.0.1:5000), or the folder of an OCI layout whose index names
 *                  them `repository:tag`; without it they come from their registries
 *   --socket       a runtime that runs already, whichever; it has to know where its images come from. Without it, a Gantry of its own, in
 *                  a network namespace of its own, that is gone afterwards
 *   --parallel     so many specs side by side; needs ginkgo on the PATH (default 1)
 *   --focus, --skip  regular expressions for specs' names, as Ginkgo takes them; may be given several times
 *   --runs         so often one after the other, on the same daemon, each with another seed (default 1)
 *   --oci-runtime, --cgroup-driver  what that Gantry is told by these flags of gantryd's (default auto, cgroupfs); not with --socket
 *   --websocket    exec, attach and port-forward over WebSocket in place of SPDY
 *   --timeout      of one run (default 3600)
 *   --report       keep the suite's log, its JUnit and JSON reports and gantryd's log there
 */
import { randomInt } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/lib/errors.ts';
import type { CgroupDriver } from '../src/runtime/settings.ts';
import { findPrograms, versionOf } from '../test/conformance/critest.ts';
import { withoutExcuse } from '../test/conformance/excuses.ts';
import { hasDigestImage, imageSource } from '../test/conformance/image-source.ts';
import { DIGEST_SPEC } from '../test/conformance/left-out.ts';
import { listenerOf, within } from '../test/conformance/peer-process.ts';
import type { RoomPlan } from '../test/conformance/room.ts';
import { runAll, type RunPlan } from '../test/conformance/run-all.ts';
import { leftSegments } from '../test/conformance/shared-memory.ts';
import { openWayOut } from '../test/conformance/way-out.ts';

const LAUNCH = new URL('../bin/launch', import.meta.url).pathname;
/** Gantryd, and all that specs have left, end within it. */
const END_WITHIN_MS = 120_000;

const { values } = parseArgs({
  options: {
    mirror: { type: 'string' },
    socket: { type: 'string' },
    parallel: { type: 'string', default: '1' },
    focus: { type: 'string', multiple: true, default: [] },
    skip: { type: 'string', multiple: true, default: [] },
    seed: { type: 'string', default: String(randomInt(1, 1_000_000)) },
    runs: { type: 'string', default: '1' },
    'oci-runtime': { type: 'string', default: 'auto' },
    'cgroup-driver': { type: 'string', default: 'cgroupfs' },
    websocket: { type: 'boolean', default: false },
    timeout: { type: 'string', default: '3600' },
    report: { type: 'string' },
  },
});

function refuse(message: string): never {
  console.error(`conformance: ${message}`);
  process.exit(2);
}

function count(name: 'parallel' | 'seed' | 'runs' | 'timeout'): number {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value > 0) return value;
  refuse(`--${name} ${values[name]} is no number from 1 on`);
}

function askedDriver(): CgroupDriver {
  const value = values['cgroup-driver'];
  if (value === 'cgroupfs' || value === 'systemd') return value;
  refuse(`--cgroup-driver ${value} is neither cgroupfs nor systemd`);
}

async function makePlan(): Promise<Omit<RunPlan, 'folder'>> {
  const programs = await findPrograms(process.env);
  if (programs === undefined) {
    refuse('critest is not on the PATH, and CRITEST does not name it: it is a program of kubernetes-sigs/cri-tools');
  }
  const parallel = count('parallel');
  if (parallel > 1 && programs.ginkgo === undefined) refuse('--parallel needs ginkgo on the PATH');
  const source = await imageSource(values.mirror);
  return {
    programs,
    parallel,
    seed: count('seed'),
    runs: count('runs'),
    focus: values.focus,
    skip: values.skip,
    omitted: (await hasDigestImage(source)) ? [] : [DIGEST_SPEC],
    withoutExcuse: await withoutExcuse(values['oci-runtime']),
    webSocket: values.websocket,
    timeoutSeconds: count('timeout'),
    strict: values.socket === undefined,
  };
}

/** On a runtime that somebody else runs. */
async function onSocket(plan: RunPlan, socket: string): Promise<boolean> {
  const pid = listenerOf(socket);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`ended by ${signal}`)));
  }
  console.log(`critest ${await versionOf(plan.programs)} on ${socket}, served by process ${String(pid)}`);
  const prefix = await within(pid);
  const segments = await leftSegments(prefix);
  try {
    return await runAll(plan, { socket, within: prefix }, interrupted.signal);
  } finally {
    await segments.removeNew();
  }
}

/** On a Gantry of its own; this process stays outside, where the network is. */
async function onOwnGantry(plan: RunPlan, folder: string, cgroupDriver: CgroupDriver): Promise<boolean> {
  const wayOut = join(folder, 'way-out.sock');
  await using stack = new AsyncDisposableStack();
  stack.use(await openWayOut(wayOut));
  const images = await imageSource(values.mirror);
  const room: RoomPlan = { run: plan, gantry: { ociRuntime: values['oci-runtime'], cgroupDriver, images, wayOut } };
  const child = spawn(
    'unshare',
    ['--net', '--mount', '--ipc', '--propagation', 'private', '--', LAUNCH, 'test/conformance/room.ts'],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, GANTRY_CONFORMANCE: JSON.stringify(room) },
      // Ctrl-C is for this process, which lets the room clear up.
      detached: true,
    },
  );
  const exit = once(child, 'exit') as Promise<[number | null]>;
  let limit: NodeJS.Timeout | undefined;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      child.kill('SIGTERM');
      limit ??= setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS);
    });
  }
  const [code] = await exit;
  clearTimeout(limit);
  return code === 0;
}

if (process.getuid?.() !== 0) refuse('containers need root: run it as root');
// What can be refused is, before anything is made.
const cgroupDriver = askedDriver();
const asked = await makePlan().catch((error: unknown) => refuse(messageOf(error)));
const own = await mkdtemp(join(tmpdir(), 'gantry-conformance-'));
let ok = false;
try {
  const folder = values.report === undefined ? join(own, 'report') : resolve(values.report);
  await mkdir(folder, { recursive: true });
  const plan = { ...asked, folder };
  ok =
    values.socket === undefined
      ? await onOwnGantry(plan, own, cgroupDriver)
      : await onSocket(plan, resolve(values.socket));
} catch (error) {
  console.error(`conformance: ${messageOf(error)}`);
} finally {
  await rm(own, { recursive: true, force: true });
}
process.exit(ok ? 0 : 1);
