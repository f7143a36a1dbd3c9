import { homedir } from 'node:os';
import { join } from 'node:path';
import { createAgent, type Agent } from '../agent/agent.ts';
import { serveInspector } from '../cri/inspector/inspector-service.ts';
import { serveCri } from '../cri/server.ts';
import { Journal, JOURNAL_SCHEMA } from '../journal/journal.ts';
import { API_SCHEMA, openEmbeddedApi } from '../kube/api/embedded-api.ts';
import { serveApi } from '../kube/api/server.ts';
import { inProcessClient } from '../kube/in-process-client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Examiner } from '../lib/doctor.ts';
import type { Log } from '../lib/log.ts';
import { settleBoth } from '../lib/settle-all.ts';
import { DiskRoom } from '../lib/store/disk-room.ts';
import { StoreThread, type Database, type OpenOptions } from '../lib/store/store-thread.ts';
import { bootId as readBootId, processIdentity } from '../linux/procfs.ts';
import { removeTemporariesOf, writeFileAtomic } from '../lib/atomic-file.ts';
import { podCgroup } from '../runtime/cgroup-layout.ts';
import { credentialFilePaths } from '../runtime/image/auth/credential-files.ts';
import type { RuntimeDeps } from '../runtime/groundwork.ts';
import { createRuntime, type Runtime } from '../runtime/main.ts';
import { settleDriver, type SettledConfig } from './settle-driver.ts';
import { Closers } from './closers.ts';
import type { GantryConfig } from './config.ts';
import { gantryExtensions } from './extensions.ts';
import { takeOwnCgroup, takeOwnPlaces } from './own-places.ts';
import { TakeOver } from './take-over.ts';

export interface Daemon {
  /** Stops serving and lets go of everything in this process. Containers run on. */
  close(): Promise<void>;
}

/** What every step of the start is given. */
interface Start {
  readonly config: SettledConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly closers: Closers;
  readonly takeOver: TakeOver;
}

interface Stores {
  readonly store: StoreThread;
  readonly room: DiskRoom;
  readonly journal: Journal;
}

/**
 * One process with runtime, agent and API, wired by hand: each part is made of those above it, and closed in the reverse order.
 * Throws FailedPrecondition, in one line, when the host lacks something or another Gantry has what this one is to have for
 * itself: root folder, state, instance …
 */
export async function startDaemon(asked: GantryConfig, clock: Clock, log: Log, version: string): Promise<Daemon> {
  const closers = new Closers(log);
  // A thread takes its time to begin, which others need to be first.
  const store = new StoreThread();
  try {
    const config = await settleDriver({ signal: new AbortController().signal, log }, asked);
    const start: Start = { config, clock, log, version, closers, takeOver: new TakeOver(log) };
    await takeOwnPlaces(start);
    closers.add('store', store, (thread) => thread.close());
    // Side by side: neither needs the other, and a process that moves to another cgroup waits some milliseconds for the kernel.
    const [stores] = await settleBoth(openStores(start, store), takeOwnCgroup(start));
    let agent: Agent | undefined;
    // Before it has taken over it knows nothing to be asked about.
    const agentsExaminers = (): Examiner[] => (agent === undefined || !start.takeOver.isDone ? [] : [agent.examiner]);
    const serving = Promise.withResolvers<undefined>();
    const runtime = await openRuntime(start, stores, { otherExaminers: agentsExaminers, serving: serving.promise });
    await serveRuntime(start, runtime);
    serving.resolve(undefined);
    if (!config.runtimeOnly) {
      const made = await openAgent(start, stores, runtime);
      agent = made;
      start.takeOver.begin({ recovered: runtime.recovered, start: () => made.start() });
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
        cgroupDriver: config.cgroupDriver,
      },
      'gantryd is serving',
    );
    return { close: () => closers.close() };
  } catch (error) {
    await closers.close();
    await store.close();
    throw error;
  }
}

async function openStores({ config, clock, log, closers }: Start, store: StoreThread): Promise<Stores> {
  const bootId = await readBootId();
  const path = join(config.root, 'reserve');
  const room = closers.add('disk room', await DiskRoom.open({ store, path, clock, log }), (part) => part.close());
  const journalPath = join(config.root, 'journal.db');
  const journalHow = { path: journalPath, schema: JOURNAL_SCHEMA, durable: 'soon' } as const;
  const journalDb = await openDatabase(store, log, journalHow);
  return { store, room, journal: await Journal.open(journalDb, clock, bootId, log) };
}

async function openRuntime(
  { config, clock, log, version, closers }: Start,
  stores: Stores,
  more: Pick<RuntimeDeps, 'otherExaminers' | 'serving'>,
): Promise<Runtime> {
  const settings = {
    root: config.root,
    state: config.state,
    netnsDir: config.netnsDir,
    instance: config.instance,
    cgroupParent: config.cgroupParent,
    cgroupDriver: config.cgroupDriver,
    ociRuntime: config.ociRuntime,
    runtimes: config.runtimes,
    cniConfDir: config.cniConfDir,
    cniBinDirs: config.cniBinDir,
    registryConfigDir: config.registryConfigDir,
    cdiSpecDirs: config.cdiSpecDir,
    pinnedImages: config.pinnedImages,
    defaultNetwork: !config.runtimeOnly,
    streamingAddress: config.streamingAddress,
    version,
  };
  const credentialFiles = credentialFilePaths(process.env, homedir());
  const deps = { ...stores, clock, log, credentialFiles, env: process.env, ...more };
  const runtime = closers.add('runtime', await createRuntime(settings, deps), (part) => part.close());
  for (const notice of runtime.notices) log.info({ component: 'runtime' }, notice);
  return runtime;
}

async function serveRuntime(
  { config, clock, log, closers }: Start,
  { runtime, image, inspector }: Runtime,
): Promise<void> {
  const extraServices = [serveInspector(inspector)];
  const cri = await serveCri({ listen: config.criListen, runtime, image, extraServices, clock, log });
  closers.add('CRI server', cri, (server) => server.close());
}

/** The API, what serves it, and the agent, which looks after nothing yet. */
async function openAgent(start: Start, { store, room, journal }: Stores, runtime: Runtime): Promise<Agent> {
  const { config, clock, log, version, closers, takeOver } = start;
  const { nodeName } = config;
  const path = join(config.root, 'api.db');
  const reserve = room.reservePath;
  const db = await openDatabase(store, log, { path, schema: API_SCHEMA, durable: true, reserve });
  const apiLog = log.child({ component: 'api' });
  const api = await openEmbeddedApi({ db, clock, log: apiLog, nodeName, room });
  closers.add('API', api, (part) => part.close());
  const kube = inProcessClient(api.registry, clock);
  const agent = await createAgent({
    cri: { runtime: runtime.runtime, image: runtime.image },
    kube,
    journal,
    clock,
    log,
    podsDir: config.podsDir,
    logRoot: config.logRoot,
    nodeName,
    agentId: config.instance,
    podCgroup: (podUid) => podCgroup(config, podUid),
    seccompProfileRoot: config.seccompProfileRoot,
    version,
    hadPod: async (podUid) => (await journal.query({ podUid }, 1)).length > 0,
  });
  const server = await serveApi({
    registry: api.registry,
    clock,
    log: apiLog,
    listen: [config.apiListen],
    version,
    pods: agent.subresources,
    streams: agent.subresources,
    extensions: gantryExtensions({ runtime, journal, kube, agent: () => agent }),
    notReady: () => takeOver.notReady(),
  });
  closers.add('API server', server, (part) => part.close());
  return closers.add('agent', agent, (part) => part.stop());
}

async function openDatabase(
  store: StoreThread,
  log: Log,
  { path, ...how }: Pick<OpenOptions, 'path' | 'schema' | 'durable' | 'reserve'>,
): Promise<Database> {
  const { db, setAside } = await store.open({ path, ...how });
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
