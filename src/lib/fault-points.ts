/**
 * Every place in the runtime at which a test may have the daemon killed, delayed or failed: between any two steps that change
 * something outside this process. A name says what has just been done. In order, by verb.
 */
export const FAULT_POINTS = {
  'run-sandbox': [
    'begun',
    'recorded',
    'intended',
    'folder-made',
    'cgroup-made',
    'files-written',
    'shm-folder-made',
    'shm-mounted',
    'namespaces-pinned',
    'pins-recorded',
    'network-intended',
    'network-connected',
    'network-held',
    'network-recorded',
    'infra-made',
    'infra-held',
    'infra-recorded',
    'infra-starting',
    'infra-started',
    'ready',
  ],
  // Of a pod with users of its own: of the process that has its namespaces until they are pinned.
  'hold-namespaces': ['begun', 'mapped', 'ended'],
  // In the thread that makes namespaces, for each of net, ipc and uts, and user where the pod has one.
  'pin-namespace': ['file-made', 'mounted', 'pinned'],
  // Of the default network, before the first pod's plug-ins and after.
  'set-up-host': [
    'bridge-intended',
    'forwarding-intended',
    'forwarding-on',
    'forwarding-held',
    'rule-intended',
    'rule-added',
    'rule-held',
    'port-chains-intended',
    'bridge-held',
  ],
  // CNI ADD and DEL, for each plug-in of the chain.
  'add-network': ['plug-in-begun', 'plug-in-running', 'plug-in-done'],
  'delete-network': ['plug-in-begun', 'plug-in-running', 'plug-in-done'],
  'undo-run': ['begun', 'released', 'forgotten'],
  'create-container': [
    'begun',
    'recorded',
    'intended',
    'snapshot-made',
    'volumes-intended',
    'volume-snapshots-made',
    'volumes-held',
    'snapshot-held',
    'created',
  ],
  // At the creation and, where something has taken it away since, at the start.
  'mount-image-volume': ['folder-made', 'mounted'],
  'undo-create': ['begun', 'released', 'forgotten'],
  'make-snapshot': ['folder-made', 'staged', 'placed'],
  'start-container': [
    'begun',
    'intended',
    'intent-recorded',
    'rootfs-folder-made',
    'folders-made',
    'rootfs-mounted',
    'task-made',
    'task-held',
    'release-recorded',
    'exit-awaited',
    'command-starting',
    'command-started',
    'started',
    'outcome-known',
  ],
  'make-task': ['config-written', 'monitor-spawned', 'monitor-detached', 'monitor-moved', 'created'],
  'undo-start': ['begun', 'recorded', 'released'],
  exit: ['seen', 'published', 'persisted', 'cleanup-begun', 'cleaned-up'],
  'delete-task': [
    'makers-ended',
    'processes-ended',
    'deleting',
    'deleted',
    'monitor-ended',
    'files-removed',
    'cgroup-removed',
  ],
  // What the ledger names, by kind: before it is released, and when it is gone but the ledger still names it.
  release: [
    'task-begun',
    'task-gone',
    'rootfs-begun',
    'rootfs-gone',
    'bundle-begun',
    'bundle-gone',
    'snapshot-begun',
    'snapshot-gone',
    'cni-begun',
    'cni-gone',
    'pin-begun',
    'pin-gone',
    'tmpfs-begun',
    'tmpfs-gone',
    'directory-begun',
    'directory-gone',
    'cgroup-begun',
    'cgroup-gone',
    'portmap-chains-begun',
    'portmap-chains-gone',
    'iptables-rule-begun',
    'iptables-rule-gone',
    'sysctl-begun',
    'sysctl-gone',
    'cni-bridge-begun',
    'cni-bridge-gone',
  ],
  unpin: ['unmounted'],
  // In the thread that deletes trees, after the first of its entries.
  'remove-tree': ['entry-removed'],
  // Of a pod's cgroup, and of a container's.
  'update-resources': ['intended', 'applied', 'recorded'],
  exec: ['folder-made', 'cgroup-made', 'monitor-spawned', 'started', 'ended', 'folder-removed'],
  checkpoint: [
    'intended',
    'folders-made',
    'dumping',
    'dumped',
    'changes-saved',
    'described',
    'packed',
    'placed',
    'folder-removed',
  ],
  'stop-container': ['asked', 'intended', 'signalled', 'thawed', 'signal-noted', 'kill-noted', 'killed', 'ended'],
  'remove-container': ['begun', 'intended', 'ended', 'released', 'exit-forgotten', 'forgotten'],
  'stop-sandbox': [
    'begun',
    'intended',
    'containers-ended',
    'infra-released',
    'network-released',
    'namespaces-released',
    'stopped',
  ],
  'remove-sandbox': ['begun', 'intended', 'stopped', 'containers-removed', 'released', 'exit-forgotten', 'forgotten'],
  'pull-image': [
    'pinned',
    'downloading',
    'downloaded',
    'unpacking',
    'unpacked',
    'layer-noted',
    'layer-done',
    'fetched',
    'recorded',
  ],
  // In the thread that unpacks layers.
  'unpack-layer': ['staged', 'unpacked', 'marked', 'synced', 'renamed'],
  'remove-image': ['begun', 'forgotten', 'layer-aside', 'layer-removed', 'layer-forgotten', 'swept'],
  recovery: [
    'layers-opened',
    'snapshots-opened',
    'images-opened',
    'opened',
    'execs-ended',
    'orphans-found',
    'container-looked',
    'container-rolled-back',
    'start-undoing',
    'start-cleaned-up',
    'start-released',
    'start-undone',
    'start-adopted',
    'watched',
    'sandbox-looked',
    'sandbox-rolled-back',
    'sandbox-not-ready',
    'sandbox-kept',
    'objects-done',
    'resumed',
    'orphan-released',
    'orphans-done',
    'network-repaired',
    'images-swept',
  ],
} as const;

type ByVerb = typeof FAULT_POINTS;
export type FaultVerb = keyof ByVerb;
/** `start-container/task-made` … */
export type FaultPoint = { [Verb in FaultVerb]: `${Verb}/${ByVerb[Verb][number]}` }[FaultVerb];

/** What happens at a point. Normal runs have {@link NO_FAULTS}; a test hands in its own (no setting or variable does). */
export interface FaultPoints {
  /** May end the process, take time, or throw. */
  reach(point: FaultPoint): Promise<void> | undefined;
  /** For a step that must not wait: may only end the process. */
  pass(point: FaultPoint): void;
}

export const NO_FAULTS: FaultPoints = { reach: () => undefined, pass: () => undefined };
