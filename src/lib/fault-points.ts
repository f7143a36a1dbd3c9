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
    'infra-started',
    'ready',
  ],
  'undo-run': ['begun', 'released', 'forgotten'],
  'create-container': ['begun', 'recorded', 'snapshot-made', 'snapshot-held', 'created'],
  'undo-create': ['begun', 'released', 'forgotten'],
  'make-snapshot': ['staged', 'placed'],
  'start-container': [
    'begun',
    'intended',
    'intent-recorded',
    'folders-made',
    'rootfs-mounted',
    'task-made',
    'task-held',
    'task-recorded',
    'exit-awaited',
    'release-recorded',
    'command-started',
    'started',
  ],
  'make-task': ['config-written', 'monitor-spawned', 'monitor-moved', 'created', 'monitor-detached'],
  'undo-start': ['begun', 'recorded', 'released'],
  exit: ['seen', 'published', 'cleanup-begun', 'cleaned-up'],
  'delete-task': ['makers-ended', 'processes-ended', 'deleted', 'monitor-ended', 'files-removed', 'cgroup-removed'],
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
  ],
  'stop-container': ['asked', 'intended', 'signalled', 'signal-noted', 'kill-noted', 'killed', 'ended'],
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
  'remove-image': ['begun', 'forgotten', 'layer-aside', 'layer-removed', 'layer-forgotten', 'swept'],
  recovery: [
    'opened',
    'execs-ended',
    'orphans-found',
    'container-looked',
    'container-rolled-back',
    'start-released',
    'start-undone',
    'start-adopted',
    'watched',
    'sandbox-looked',
    'sandbox-rolled-back',
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
