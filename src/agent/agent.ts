import os from 'node:os';
import { mkdir, realpath } from 'node:fs/promises';
import { canceled, messageOf } from '../lib/errors.ts';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { Examiner } from '../lib/doctor.ts';
import type { Log } from '../lib/log.ts';
import type { JournalWriter } from '../journal/journal.ts';
import type { ImageService, RuntimeService } from '../cri/services.ts';
import type { KubeClient } from '../kube/client.ts';
import type { PendingWork, PodSubresources } from '../kube/gantry-extensions.ts';
import type { PodStreamUrls } from '../kube/streams/pod-streams.ts';
import { bootId as readBootId } from '../linux/procfs.ts';
import { readHostIds } from '../linux/host-ids.ts';
import { HangSafe } from '../linux/hang-safe.ts';
import { SafeRemove } from '../linux/safe-remove.ts';
import { otherSandboxesLogs } from './doctor/other-sandboxes-logs.ts';
import { podFolderExaminer } from './doctor/pod-folders.ts';
import { EventRecorder } from './events/event-recorder.ts';
import { Story } from './events/story.ts';
import { ImagePuller } from './images/image-puller.ts';
import { pullSecrets } from './images/pull-secrets.ts';
import { podSubresources } from './subresources/subresources.ts';
import { fileSystemBytes, hasAppArmor, readHostDns, readHostsFile, readHugePages } from './node/host-facts.ts';
import { NodeAgent } from './node/node-agent.ts';
import { hearRuntime } from './pleg/hear-runtime.ts';
import { Pleg } from './pleg/pleg.ts';
import { toNodePod } from './pods/node-pod.ts';
import { PodPaths } from './pods/paths.ts';
import { PodSource } from './sources/pod-source.ts';
import { StatusWriter } from './status/status-writer.ts';
import { SUBORDINATE_NAME } from './user-namespaces/id-block.ts';
import { UserNamespaces } from './user-namespaces/user-namespaces.ts';
import { blockedWork, TEARING_DOWN, withNames, type PendingVolume } from './volumes/pending-volumes.ts';
import { tellVolumeNews } from './volumes/volume-story.ts';
import { VolumeManager } from './volumes/volume-manager.ts';
import type { TreeRemover, VolumePlugin } from './volumes/plugin.ts';
import type { VolumeMounts } from './volumes/plugins/directory-teardown.ts';
import { standardPlugins } from './volumes/plugins/standard-plugins.ts';
import { Workers } from './workers/workers.ts';

export interface AgentConfig {
  readonly cri: { readonly runtime: RuntimeService; readonly image: ImageService };
  readonly kube: KubeClient;
  readonly journal: JournalWriter;
  readonly clock: Clock;
  readonly log: Log;
  readonly podsDir: string;
  readonly logRoot: string;
  readonly nodeName: string;
  /** Marks the sandboxes of this agent in a runtime that others may use too. */
  readonly agentId: string;
  /** A pod's own: `/gantry/pod<uid>`, or with the systemd driver a slice's. */
  readonly podCgroup: (podUid: string) => string;
  /** Folder of the host's that seccomp profiles of type Localhost are looked up in. */
  readonly seccompProfileRoot: string;
  readonly version: string;
  /** Whether there ever was such a pod here: whose logs may be removed by the doctor. */
  hadPod(podUid: string): Promise<boolean>;
  /** Replaces parts of the machine in tests. */
  readonly host?: Partial<AgentHost>;
}

/** What the agent needs of the machine beside the runtime. */
export interface AgentHost {
  readonly plugins: readonly VolumePlugin[];
  readonly remover: TreeRemover;
  readonly mounts: VolumeMounts;
  readonly bootId: string;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly cpus: number;
  hasAppArmor(): Promise<boolean>;
  /** Bytes of huge pages, by the size of a page. */
  readonly hugePages: ReadonlyMap<number, number>;
}

export interface Agent {
  /** Looks at what runs, then takes over. Resolves when every pod that there is has a worker. */
  start(): Promise<void>;
  /** Stops looking after pods. Containers run on, volumes stay. */
  stop(): Promise<void>;
  /** What the API is asked for below a pod. */
  readonly subresources: PodSubresources & PodStreamUrls;
  /** Volumes of any pod, gone from the API or not, whose teardown something is in the way of. */
  pendingVolumes(): Promise<readonly PendingVolume[]>;
  /** What is not finished of a pod, for `explain`. */
  pendingWork(podUid: string): readonly PendingWork[];
  /** Looks for what is left of pods in the folders of volumes and logs. */
  readonly examiner: Examiner;
}

/** Of every pod, until the agent has looked at what there is: that nothing is known to be pending does not say that nothing is. */
export const NOT_LOOKED_YET: PendingWork = {
  what: 'agent',
  message: 'the agent has just started and has not looked at everything yet',
};

/** The agent's parts: some know each other, and are asked for when they are needed. */
interface Parts {
  readonly paths: PodPaths;
  readonly remover: TreeRemover;
  readonly events: EventRecorder;
  readonly pleg: Pleg;
  readonly node: NodeAgent;
  readonly volumes: VolumeManager;
  readonly workers: Workers;
  /** Lets go of processes and threads: they must not outlive us, as they are in the daemon's own cgroup. */
  readonly closeCalls: () => void;
}

/** The kubelet's place: everything between the Kubernetes API and the runtime of one machine. */
export async function createAgent(config: AgentConfig): Promise<Agent> {
  const { clock, kube, cri } = config;
  const stopping = new AbortController();
  const op: Op = { signal: stopping.signal, log: config.log.child({ component: 'agent' }) };
  const parts = makeParts(op, config, await lookAtMachine(config));
  const { paths, remover, volumes, workers } = parts;
  const { start, stop } = life(op, stopping, config, parts);
  let hasTakenOver = false;
  return {
    start: async () => {
      await start();
      hasTakenOver = true;
    },
    stop,
    subresources: podSubresources({ kube, runtime: cri.runtime, clock, paths, agentId: config.agentId }),
    pendingVolumes: () => withNames(volumes.blocked(), workers, paths),
    examiner: podFolderExaminer({
      paths,
      clock,
      kube,
      remover,
      volumes,
      hasWorker: (uid) => workers.podOf(uid) !== undefined,
      mayTearDown: (uid) => workers.mayTearDown(uid),
      hadPod: (uid) => config.hadPod(uid),
      otherLogs: (ownOp) => otherSandboxesLogs(ownOp, cri.runtime, config.agentId),
    }),
    pendingWork: (uid) => [
      ...(hasTakenOver ? [] : [NOT_LOOKED_YET]),
      ...workers.pending(uid),
      ...blockedWork(volumes.blocked(), uid),
      // Of a pod that is let go of, between two tries and before the first.
      ...(workers.podOf(uid) === undefined && volumes.teardownOf(uid).kind === 'pending' ? [TEARING_DOWN] : []),
    ],
  };
}

type Machine = Pick<AgentHost, 'bootId' | 'memoryBytes' | 'diskBytes' | 'cpus' | 'hugePages'> & {
  readonly paths: PodPaths;
};

/** Makes the agent's folders, too. */
async function lookAtMachine({ podsDir, logRoot, host }: AgentConfig): Promise<Machine> {
  await mkdir(podsDir, { recursive: true, mode: 0o750 });
  await mkdir(logRoot, { recursive: true, mode: 0o755 });
  // The kernel's tables have real paths: a link in the middle would hide every mount from us (FAILURES.md row 48).
  const paths = new PodPaths(await realpath(podsDir), await realpath(logRoot));
  return {
    paths,
    bootId: host?.bootId ?? (await readBootId()),
    memoryBytes: host?.memoryBytes ?? os.totalmem(),
    diskBytes: host?.diskBytes ?? (await fileSystemBytes(paths.podsDir)),
    cpus: host?.cpus ?? os.availableParallelism(),
    hugePages: host?.hugePages ?? (await readHugePages()),
  };
}

function makeParts(op: Op, config: AgentConfig, machine: Machine): Parts {
  const { clock, kube, nodeName, cri, agentId, podCgroup, seccompProfileRoot, host } = config;
  const { log } = op;
  const { paths, bootId, memoryBytes, diskBytes, cpus, hugePages } = machine;
  const safeRemove = new SafeRemove({ clock });
  const hangSafe = new HangSafe({ clock });
  const remover = host?.remover ?? safeRemove;
  const events = new EventRecorder({ kube, clock, log, host: nodeName, signal: op.signal });
  const story = new Story(config.journal, events);
  const pleg = new Pleg({ runtime: cri.runtime, agentId, clock, op, onChange: (uids) => workers.runtimeChanged(uids) });
  const node = new NodeAgent({
    ...{ runtime: cri.runtime, kube, clock, nodeName, agentVersion: config.version },
    ...{ bootId, memoryBytes, diskBytes, cpus, hugePages },
    problems: () => plegProblems(pleg),
  });
  const mounts = host?.mounts === undefined ? {} : { mounts: host.mounts };
  const volumes: VolumeManager = new VolumeManager({
    plugins: host?.plugins ?? standardPlugins({ paths, clock, kube, remover, hangSafe, memoryBytes, ...mounts }),
    ...{ paths, clock, log },
    demands: () => workers.demands(),
    mayTearDown: (uid) => workers.mayTearDown(uid),
    onNews: (news) =>
      void tellVolumeNews(news, { story, paths, wake: (uid) => workers.wake(uid), podOf: (uid) => workers.podOf(uid) }),
    onDirectoryGone: (uid) => {
      void userNamespaces.release(uid).catch((error: unknown) => {
        log.warn({ podUid: uid, error: messageOf(error) }, 'the ids of a pod cannot be given back');
      });
      workers.wake(uid);
    },
  });
  const userNamespaces = new UserNamespaces({ paths, hostIds: () => readHostIds(SUBORDINATE_NAME) });
  const images = new ImagePuller({
    images: cri.image,
    pullSecrets: (bounded, pod) => pullSecrets(bounded, kube, pod),
    ...{ clock, story, op },
    wake: (uid) => workers.wake(uid),
  });
  const workers: Workers = new Workers({
    ...{ runtime: cri.runtime, images, kube, volumes, userNamespaces, story, clock, op, paths, remover },
    ...{ bootId, agentId, podCgroup, seccompProfileRoot },
    status: new StatusWriter(kube, clock, op),
    node: {
      ...{ nodeName, memoryBytes, diskBytes, hugePages, cpuMilli: cpus * 1000 },
      hostIps: () => node.hostIps,
      runtimeName: () => node.runtimeName,
      runtimeFeatures: () => node.features,
      hasAppArmor: host?.hasAppArmor ?? hasAppArmor,
      hostDns: readHostDns,
      hostsFile: readHostsFile,
    },
    snapshot: () => pleg.snapshot,
  });
  const closeCalls = (): void => {
    hangSafe.close();
    safeRemove.close();
  };
  return { paths, remover, events, pleg, node, volumes, workers, closeCalls };
}

/** How it takes over, and how it leaves. */
function life(
  op: Op,
  stopping: AbortController,
  { cri, kube, clock, nodeName, agentId }: AgentConfig,
  { events, pleg, node, volumes, workers, closeCalls }: Parts,
): Pick<Agent, 'start' | 'stop'> {
  const synced = Promise.withResolvers<true>();
  const source = new PodSource({
    kube,
    clock,
    nodeName,
    onPod: (pod) => workers.set(toNodePod(pod)),
    onGone: (uid, last) => workers.gone(uid, toNodePod(last)),
    onSynced: () => synced.resolve(true),
  });
  const running: Promise<void>[] = [];
  return {
    start: async () => {
      await node.prepare(op);
      running.push(source.run(op), node.run(op));
      await synced.promise;
      // Pods first, then the runtime, then the disk: what is found has its owner by then, if it has one.
      running.push(hearRuntime(op, { runtime: cri.runtime, clock, agentId, hint: () => pleg.hint() }));
      await pleg.start();
      workers.sourcesReady();
      await volumes.start();
    },
    stop: async () => {
      pleg.stop();
      volumes.stop();
      workers.stop();
      await Promise.race([events.flush(), clock.sleep(LAST_WORDS_MS)]);
      stopping.abort(canceled('the agent stops'));
      await Promise.allSettled(running);
      closeCalls();
    },
  };
}

/** What events may still take when the agent stops. */
const LAST_WORDS_MS = 1_000;
/** Without a look for so long something is wrong with the runtime. */
const PLEG_UNHEALTHY_MS = 60_000;

function plegProblems(pleg: Pleg): string[] {
  const { agoMs, lastError } = pleg.health();
  if (agoMs === undefined || agoMs < PLEG_UNHEALTHY_MS) return [];
  return [
    `the runtime was last listed ${String(Math.round(agoMs / 1000))} s ago${lastError === undefined ? '' : `: ${lastError}`}`,
  ];
}
