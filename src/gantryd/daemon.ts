import { homedir } from 'node:os';
import { join } from 'node:path';
import { createAgent, type Agent } from '../agent/agent.ts';
import { serveInspector } from '../cri/inspector/inspector-service.ts';
import { serveCri } from '../cri/server.ts';
import { Journal, JOURNAL_SCHEMA } from '../journal/journal.ts';
import { API_SCHEMA, openEmbeddedApi } from '../kube/api/embedded-api.ts';
import { serveApi } from '../kube/api/server.ts';
import { inProcessClient } from '../kube/in-process-client.ts';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { failedPrecondition, isKind, messageOf, withContext } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { DiskRoom } from '../lib/store/disk-room.ts';
import { StoreThread, type Database, type OpenOptions } from '../lib/store/store-thread.ts';
import { Cgroups, detectCgroups } from '../linux/cgroups.ts';
import { lockFile } from '../linux/file-lock.ts';
import { bootId as readBootId, processIdentity } from '../linux/procfs.ts';
import { removeTemporariesOf, writeFileAtomic } from '../lib/atomic-file.ts';
import { credentialFilePaths } from '../runtime/image/auth/credential-files.ts';
import { MONITOR_CGROUP } from '../runtime/host.ts';
import { createRuntime } from '../runtime/main.ts';
import type { GantryConfig } from './config.ts';
import { endStrays } from './end-strays.ts';
import { gantryExtensions } from './extensions.ts';
import { makeOwnFolders } from './own-folders.ts';
import { TakeOver } from './take-over.ts';

export interface Daemon {
  /** Stops serving and lets go of everything in this process. Containers run on. */
  close(): Promise<void>;
}

const DAEMON_CGROUP = 'daemon';
const OWN_CGROUPS = [DAEMON_CGROUP, MONITOR_CGROUP];
const LAST_STEP_MS = 5_000;

/**
 * One process with runtime, agent and API, wired by hand: each part is made of those above it, and closed in the reverse order.
 * Throws FailedPrecondition, in one line, when the host lacks something or another gantryd has this root folder.
 */
export async function startDaemon(config: GantryConfig, clock: Clock, log: Log, version: string): Promise<Daemon> {
  const closers: { readonly what: string; readonly close: () => unknown }[] = [];
  const close = async (): Promise<void> => {
    for (const { what, close: closeOne } of closers.splice(0).reverse()) {
      try {
        await closeOne();
      } catch (error) {
        log.warn({ what, error: messageOf(error) }, 'a part did not close cleanly');
      }
    }
  };
  const closing = <T>(what: string, part: T, closePart: (part: T) => unknown): T => {
    closers.push({ what, close: () => closePart(part) });
    return part;
  };

  try {
    await makeOwnFolders(config);
    closing('lock', await lockRoot(config.root), (lock) => lock.release());
    const cgroups = await joinOwnCgroup(config, clock, log);
    const bootId = await readBootId();
    closing('cgroups', cgroups, (part) =>
      leaveNoCgroup({ signal: AbortSignal.timeout(LAST_STEP_MS), log }, config, part),
    );
    const store = closing('store', new StoreThread(), (thread) => thread.close());
    const room = closing(
      'disk room',
      await DiskRoom.open({ store, path: join(config.root, 'reserve'), clock, log }),
      (part) => part.close(),
    );
    const journalDb = await openDatabase(store, log, { path: join(config.root, 'journal.db'), schema: JOURNAL_SCHEMA });
    const journal = await Journal.open(journalDb, clock, bootId, log);

    let agent: Agent | undefined;
    const takeOver = new TakeOver(log);
    const runtime = closing(
      'runtime',
      await createRuntime(
        {
          root: config.root,
          state: config.state,
          netnsDir: config.netnsDir,
          instance: config.instance,
          cgroupParent: config.cgroupParent,
          ociRuntime: config.ociRuntime,
          cniConfDir: config.cniConfDir,
          cniBinDirs: config.cniBinDir,
          registryConfigDir: config.registryConfigDir,
          defaultNetwork: !config.runtimeOnly,
          version,
        },
        {
          clock,
          log,
          journal,
          store,
          room,
          credentialFiles: credentialFilePaths(process.env, homedir()),
          env: process.env,
          // Before it has taken over it knows nothing to be asked about.
          otherExaminers: () => (agent === undefined || !takeOver.isDone ? [] : [agent.examiner]),
        },
      ),
      (part) => part.close(),
    );
    for (const notice of runtime.notices) log.info({ component: 'runtime' }, notice);
    const cri = await serveCri({
      listen: config.criListen,
      runtime: runtime.runtime,
      image: runtime.image,
      extraServices: [serveInspector(runtime.inspector)],
      clock,
      log,
    });
    closing('CRI server', cri, (server) => server.close());

    if (!config.runtimeOnly) {
      const apiDb = await openDatabase(store, log, {
        path: join(config.root, 'api.db'),
        schema: API_SCHEMA,
        reserve: room.reservePath,
      });
      const api = await openEmbeddedApi({
        db: apiDb,
        clock,
        log: log.child({ component: 'api' }),
        nodeName: config.nodeName,
        room,
      });
      closing('API', api, (part) => part.close());
      const kube = inProcessClient(api.registry, clock);
      const made = await createAgent({
        cri: { runtime: runtime.runtime, image: runtime.image },
        kube,
        journal,
        clock,
        log,
        podsDir: config.podsDir,
        logRoot: config.logRoot,
        nodeName: config.nodeName,
        agentId: config.instance,
        cgroupParent: config.cgroupParent,
        version,
        hadPod: async (podUid) => (await journal.query({ podUid }, 1)).length > 0,
      });
      const server = await serveApi({
        registry: api.registry,
        clock,
        log: log.child({ component: 'api' }),
        listen: [config.apiListen],
        version,
        pods: made.subresources,
        extensions: gantryExtensions({ runtime, journal, kube, agent: () => made }),
        notReady: () => takeOver.notReady(),
      });
      closing('API server', server, (part) => part.close());
      closing('agent', made, (part) => part.stop());
      agent = made;
      takeOver.begin({ recovered: runtime.recovered, start: () => made.start() });
    }
    await writePidFile(join(config.state, 'gantryd.pid'));
    log.info(
      {
        pid: process.pid,
        version,
        root: config.root,
        cri: config.criListen,
        api: config.runtimeOnly ? undefined : config.apiListen,
        ociRuntime: runtime.ociRuntime,
      },
      'gantryd is serving',
    );
    return { close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function lockRoot(root: string): ReturnType<typeof lockFile> {
  try {
    return await lockFile(join(root, 'gantryd.lock'));
  } catch (error) {
    if (!isKind(error, 'FailedPrecondition')) throw withContext(`--root: ${root} cannot be used`, error);
    throw failedPrecondition(`another gantryd is running on ${root}: use it, or give this one a --root of its own`, {
      cause: error,
    });
  }
}

/** Out of the cgroup of whoever started us: the end of a login session must not be ours, nor its limits. */
async function joinOwnCgroup(config: GantryConfig, clock: Clock, log: Log): Promise<Cgroups> {
  const host = await detectCgroups();
  if (host.unusable !== undefined) throw failedPrecondition(host.unusable);
  const cgroups = new Cgroups({ clock, host });
  await cgroups.ensureParent(config.cgroupParent);
  const leaf = join(config.cgroupParent, DAEMON_CGROUP);
  await cgroups.create(leaf);
  const strays = await endStrays({ signal: new AbortController().signal, log }, { clock, cgroups }, leaf);
  if (strays > 0) log.info({ strays }, 'waited for what an earlier gantryd had at work when it was killed');
  await cgroups.joinSelf(leaf);
  return cgroups;
}

/** With no pod left there is nothing to keep: the last daemon takes its own cgroups away, so that `npm stop` leaves none. */
async function leaveNoCgroup(op: Op, config: GantryConfig, cgroups: Cgroups): Promise<void> {
  // Every pod has a cgroup here, whether a process of it runs or not.
  if ((await cgroups.children(config.cgroupParent)).some((name) => !OWN_CGROUPS.includes(name))) return;
  await cgroups.leave(join(config.cgroupParent, DAEMON_CGROUP));
  await cgroups.remove(op, config.cgroupParent);
}

async function openDatabase(
  store: StoreThread,
  log: Log,
  { path, ...how }: Pick<OpenOptions, 'path' | 'schema' | 'reserve'>,
): Promise<Database> {
  const { db, setAside } = await store.open({ path, ...how, durable: true });
  if (setAside !== undefined)
    log.error({ path, setAside }, 'a database was damaged and has been set aside: its content is lost');
  return db;
}

/** Pid and start time, so that nobody takes another process for us. */
async function writePidFile(path: string): Promise<void> {
  await removeTemporariesOf(path);
  const self = await processIdentity(process.pid);
  await writeFileAtomic(path, `${process.pid} ${self?.startTimeTicks ?? 0}\n`, { sync: false, mode: 0o644 });
}
