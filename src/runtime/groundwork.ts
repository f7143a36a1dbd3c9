import { mkdir } from 'node:fs/promises';
import type { JournalReader, JournalWriter } from '../journal/journal.ts';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { Examiner } from '../lib/doctor.ts';
import { NO_FAULTS, type FaultPoints } from '../lib/fault-points.ts';
import type { Log } from '../lib/log.ts';
import { AMPLE_ROOM, type Room } from '../lib/store/disk-room.ts';
import type { StoreThread } from '../lib/store/store-thread.ts';
import { bootId } from '../linux/procfs.ts';
import { prepareInfraRootfs } from './oci/build-infra-spec.ts';
import type { RuntimeSettings } from './settings.ts';
import { RuntimePaths } from './store/paths.ts';

export interface RuntimeDeps {
  /** Who else is asked by `gantry doctor`, at that moment: the agent, for pods' folders. */
  readonly otherExaminers?: () => readonly Examiner[];
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: JournalWriter & JournalReader;
  readonly store: StoreThread;
  /** On the disk of the root folder (default: ample), and the reserve that the records may use up there. */
  readonly room?: Room & { readonly reservePath?: string };
  /** Files with registry credentials, the first match wins. */
  readonly credentialFiles: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For tests that kill the daemon at a given step. */
  readonly faults?: FaultPoints;
  /** Fulfilled when requests are taken (default: at once): until then nothing is looked at that no answer needs. */
  readonly serving?: Promise<void>;
}

/** What every part of the runtime is made from. */
export interface Groundwork {
  readonly settings: RuntimeSettings;
  readonly paths: RuntimePaths;
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: RuntimeDeps['journal'];
  readonly faults: FaultPoints;
  readonly room: NonNullable<RuntimeDeps['room']>;
  readonly bootId: string;
  /** Ends with the signal that was handed in: when the runtime is closed. */
  readonly background: Op;
}

/** Makes the runtime's own folders, and gathers what was handed in. */
export async function layGroundwork(
  settings: RuntimeSettings,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Groundwork> {
  const paths = new RuntimePaths(settings.root, settings.state);
  await makeFolders(settings, paths);
  const { clock, journal, faults = NO_FAULTS, room = AMPLE_ROOM } = deps;
  const log = deps.log.child({ component: 'runtime' });
  return { settings, paths, clock, log, journal, faults, room, bootId: await bootId(), background: { signal, log } };
}

async function makeFolders({ root, state, netnsDir }: RuntimeSettings, paths: RuntimePaths): Promise<void> {
  // Passed through by containers with users of their own.
  for (const path of [root, state, paths.sandboxes, paths.containers]) {
    await mkdir(path, { recursive: true, mode: 0o711 });
  }
  for (const path of [paths.exits.written, paths.exits.kept, paths.sockets, paths.execs]) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  }
  await prepareInfraRootfs(paths.infraRootfs);
  await mkdir(netnsDir, { recursive: true, mode: 0o755 });
}
