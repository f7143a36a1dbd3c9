import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { detached, withDeadline, type Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/errors.ts';
import { execFile } from '../../linux/exec.ts';
import { findProgram } from '../../lib/find-program.ts';
import type { CgroupHost } from '../../linux/cgroup-host.ts';
import type { RuntimePaths } from '../store/paths.ts';
import { globalOptions, OciRuntime, type OciRuntimeLocation } from './oci-runtime.ts';
import { ProbeBundle } from './probe-bundle.ts';
import { runtimeWords } from './runtime-error.ts';
import { readFeatures, type OciFeatures } from './runtime-features.ts';

export interface ProbeDeps {
  readonly clock: Clock;
  readonly cgroupHost: CgroupHost;
  /** Of the probe of that name, made by the OCI runtime; it is gone afterwards. */
  readonly cgroupOf: (id: string) => string;
  /** Whose cgroups are to be systemd's. */
  readonly systemdCgroup?: true;
  readonly paths: Pick<RuntimePaths, 'ociState' | 'probeBundle'>;
  readonly removeCgroup: (op: Op, path: string) => Promise<void>;
  /** Default: the usual ones. */
  readonly searchPath?: readonly string[];
}

/** A program that may do for an OCI runtime. */
export interface Candidate {
  /** What it is called: its handler's name, and its state folder's. */
  readonly name: string;
  /** Absolute, or a name that is looked for. */
  readonly program: string;
}

export interface RefusedRuntime {
  readonly name: string;
  readonly path?: string;
  /** Its own words, or that it is not installed. */
  readonly reason: string;
}

/** One that has run a container here. */
export interface WorkingRuntime {
  readonly runtime: OciRuntimeLocation;
  /** First line of `--version`. */
  readonly version: string;
  readonly features: OciFeatures;
}

/** One container, on a machine that has just started and is slow. */
const PROBE_MS = 60_000;
/** An OCI runtime whose `delete` hangs must not keep the daemon from its start. */
const CLEAN_UP_MS = 10_000;

/** Runs one container with it: versions and layouts are too many to be judged by reading. Throws only when the op ends. */
export async function probeCandidate(
  op: Op,
  { name, program }: Candidate,
  deps: ProbeDeps,
): Promise<WorkingRuntime | RefusedRuntime> {
  const path = isAbsolute(program) ? program : await findProgram(program, deps.searchPath);
  if (path === undefined) return { name, reason: 'not installed' };
  const runtime: OciRuntimeLocation = {
    name,
    path,
    root: deps.paths.ociState(name),
    ...(deps.systemdCgroup === true ? { systemdCgroup: true } : {}),
  };
  const reason = await tryRuntime(op, runtime, deps);
  if (reason !== undefined) return { name, path, reason };
  return { runtime, version: await versionOf(op, runtime), features: await readFeatures(op, runtime) };
}

/** Why it cannot be used; undefined: it can. */
async function tryRuntime(op: Op, location: OciRuntimeLocation, deps: ProbeDeps): Promise<string | undefined> {
  // Always the same: a daemon that was killed in its probe has left this one, and its next probe takes it away.
  const id = `probe-${location.name}`;
  const bundle = new ProbeBundle(deps.paths.probeBundle(location.name));
  const cgroupPath = deps.cgroupOf(id);
  let hasRun = false;
  try {
    await mkdir(location.root, { recursive: true, mode: 0o700 });
    // What is left of its cgroup does not keep the next container from being put there.
    if (await bundle.isThere()) {
      await withDeadline(op, deps.clock, CLEAN_UP_MS, 'take an earlier probe away', (child) =>
        takeAway(child, location, id, cgroupPath, deps),
      ).catch(() => undefined);
    }
    const hostName = `probe-${randomBytes(4).toString('hex')}`;
    const systemdCgroup = location.systemdCgroup === true;
    await bundle.write({ cgroupPath, systemdCgroup }, deps.cgroupHost, hostName);
    const result = await withDeadline(op, deps.clock, PROBE_MS, `${location.name} run`, (child) =>
      execFile(child, location.path, [...globalOptions(location), 'run', '--bundle', bundle.dir, id]),
    );
    hasRun = result.code === 0;
    if (hasRun) {
      if (result.stdout.trim() === hostName) return undefined;
      return 'it ended with success and ran nothing: it is no OCI runtime';
    }
    const words = runtimeWords(result.stderr) || runtimeWords(result.stdout);
    return words || `ended with ${result.signal ?? `code ${result.code}`} and said nothing`;
  } catch (error) {
    op.signal.throwIfAborted();
    return messageOf(error);
  } finally {
    await detached(op.log, deps.clock, CLEAN_UP_MS, 'clean up probe', async (fresh) => {
      // `run` has deleted what has ended well.
      if (hasRun) await deps.removeCgroup(fresh, cgroupPath);
      else await takeAway(fresh, location, id, cgroupPath, deps);
      await bundle.remove();
    }).catch((error: unknown) => {
      op.log.warn({ runtime: location.name, error: messageOf(error) }, 'a probe left something behind');
    });
  }
}

async function takeAway(
  op: Op,
  location: OciRuntimeLocation,
  id: string,
  cgroupPath: string,
  deps: ProbeDeps,
): Promise<void> {
  // Where it came to nothing there is nothing to delete.
  await new OciRuntime(location).delete(op, id, { force: true }).catch(() => undefined);
  await deps.removeCgroup(op, cgroupPath);
}

async function versionOf(op: Op, { path, root }: OciRuntimeLocation): Promise<string> {
  const result = await execFile(op, path, ['--root', root, '--version']);
  return result.stdout.split('\n', 1)[0]?.trim() ?? '';
}
