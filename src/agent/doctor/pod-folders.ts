import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Diagnosis, Examiner, Finding } from '../../lib/doctor.ts';
import { messageOf, unavailable } from '../../lib/errors.ts';
import { namesIn } from '../../lib/may-be-gone.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { PodPaths } from '../pods/paths.ts';
import type { TreeRemover } from '../volumes/plugin.ts';
import { describeBlockers } from '../volumes/plugin.ts';
import { listPodDirectories, readPodIdentity, wasMadeByAgent } from '../volumes/pod-directory.ts';
import type { BlockedVolume, PodTeardown } from '../volumes/volume-manager.ts';

export interface PodFoldersDeps {
  readonly paths: PodPaths;
  readonly clock: Clock;
  readonly kube: KubeClient;
  readonly remover: TreeRemover;
  /** Whether a worker looks after the pod. */
  hasWorker(podUid: string): boolean;
  /** False while something of it may run. */
  mayTearDown(podUid: string): boolean;
  readonly volumes: {
    blocked(): readonly BlockedVolume[];
    takeOver(podUid: string): Promise<void>;
    teardownOf(podUid: string): PodTeardown;
  };
  /** Whether there ever was such a pod here: logs of another's pods lie in the same folder. */
  hadPod(podUid: string): Promise<boolean>;
  /** {@link otherSandboxesLogs} */
  otherLogs(op: Op): Promise<ReadonlyMap<string, string>>;
}

const LOOK_AGAIN_MS = 100;
const TEARDOWN_PATIENCE_MS = 60_000;

/** The agent's half of `gantry doctor`: pods' folders, volumes and logs. */
export function podFolderExaminer(deps: PodFoldersDeps): Examiner {
  return {
    examine: async (op) => {
      const owned = new Set((await deps.kube.list(op, 'pods', {})).items.map(({ metadata }) => metadata.uid));
      const isOwned = (uid: string): boolean => owned.has(uid) || deps.hasWorker(uid);
      const notices: string[] = [];
      const others = await deps.otherLogs(op).catch((error: unknown): ReadonlyMap<string, string> => {
        notices.push(`whose log directories there are could not be asked: ${messageOf(error)}`);
        return new Map();
      });
      const diagnoses = [
        ...(await blockedVolumes(deps)),
        ...(await podDirectories(deps, isOwned)),
        ...(await logDirectories(deps, isOwned, others)),
      ];
      return { diagnoses, notices };
    },
  };
}

async function blockedVolumes({ volumes, paths }: PodFoldersDeps): Promise<Diagnosis[]> {
  return await Promise.all(
    volumes.blocked().map(async ({ podUid, name, message, attempts }): Promise<Diagnosis> => {
      const tries = attempts === 1 ? '1 attempt' : `${String(attempts)} attempts`;
      const finding: Finding = {
        problem: 'blocked',
        kind: 'volume',
        key: `${podUid}/${name}`,
        message: `volume ${name} of ${await podName(paths, podUid)} is not torn down after ${tries}: ${message}`,
      };
      return { finding };
    }),
  );
}

async function podDirectories(deps: PodFoldersDeps, isOwned: (uid: string) => boolean): Promise<Diagnosis[]> {
  const { paths, volumes } = deps;
  const blocked = new Set(volumes.blocked().map(({ podUid }) => podUid));
  const diagnoses: Diagnosis[] = [];
  for (const uid of await listPodDirectories(paths)) {
    if (isOwned(uid) || blocked.has(uid) || !deps.mayTearDown(uid)) continue;
    const at = { kind: 'pod-folder', key: paths.pod(uid) } as const;
    if (!(await wasMadeByAgent(paths, uid))) {
      diagnoses.push({ finding: { ...at, problem: 'foreign', message: 'no pod of this Gantry: it has no pod.json' } });
      continue;
    }
    diagnoses.push({
      finding: {
        ...at,
        problem: 'orphan',
        message: `${await podName(paths, uid)} is gone`,
        action: 'tear its volumes down and remove it, stopping at anything that is mounted in it',
      },
      fix: (op) => tearDown(op, deps, uid),
    });
  }
  return diagnoses;
}

/** Through the volume manager, which does it in its own time and says when something is in the way. */
async function tearDown(op: Op, { volumes, paths, clock }: PodFoldersDeps, uid: string): Promise<void> {
  await volumes.takeOver(uid);
  const endMs = clock.monotonicMs() + TEARDOWN_PATIENCE_MS;
  for (;;) {
    const teardown = volumes.teardownOf(uid);
    if (teardown.kind === 'blocked') throw unavailable(teardown.volumes.map(({ message }) => message).join('; '));
    if (teardown.kind === 'gone') break;
    if (clock.monotonicMs() > endMs) throw unavailable('its volumes are still being torn down');
    await clock.sleep(LOOK_AGAIN_MS, op.signal);
  }
  if (await isThere(paths.pod(uid))) throw unavailable('there are files in it that are not ours: it stays');
}

async function logDirectories(
  deps: PodFoldersDeps,
  isOwned: (uid: string) => boolean,
  others: ReadonlyMap<string, string>,
): Promise<Diagnosis[]> {
  const { paths, remover } = deps;
  const diagnoses: Diagnosis[] = [];
  for (const name of await namesIn(paths.logRoot)) {
    const [, namespace, pod, uid] = /^([^_]+)_([^_]+)_([^_]+)$/.exec(name) ?? [];
    if (uid !== undefined && isOwned(uid)) continue;
    const path = join(paths.logRoot, name);
    const at = { kind: 'logs', key: path } as const;
    const user = [...others].find(([directory]) => `${directory}/`.startsWith(`${path}/`))?.[1];
    if (user !== undefined) {
      const message = `of ${user}, which somebody else has made through CRI`;
      diagnoses.push({ finding: { ...at, problem: 'foreign', message } });
      continue;
    }
    if (uid === undefined || !(await deps.hadPod(uid))) {
      diagnoses.push({ finding: { ...at, problem: 'foreign', message: 'of no pod that this Gantry ever had' } });
      continue;
    }
    diagnoses.push({
      finding: {
        ...at,
        problem: 'orphan',
        message: `pod ${namespace ?? ''}/${pod ?? ''} is gone`,
        action: 'remove it, stopping at anything that is mounted in it',
      },
      fix: async (op) => {
        const outcome = await remover.remove(op, { root: paths.logRoot, path });
        if (outcome.kind === 'blocked') throw unavailable(describeBlockers(outcome.blockers));
      },
    });
  }
  return diagnoses;
}

async function podName(paths: PodPaths, uid: string): Promise<string> {
  const identity = await readPodIdentity(paths, uid);
  return identity === undefined ? `pod ${uid}` : `pod ${identity.namespace}/${identity.name}`;
}

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
