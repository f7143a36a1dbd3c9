import type { FaultPoint, FaultVerb } from '../../src/lib/fault-points.ts';
import { ALL_POINTS } from './planned-faults.ts';

/** Something without an owner is put there; the process that holds the pod's PID namespace dies. */
export type Meanwhile = 'orphan' | 'infra-dies';

/** What is lived through: a pod's life, that of a pod with users of its own, a checkpoint of a container, an image's life. */
export type LifeKind = 'pod' | 'mapped-pod' | 'checkpoint' | 'image';

/** A kill at one step, and what is to be looked at afterwards. */
export interface FaultCase {
  /** The point, with the time at which it is reached when that is not the first: `make-task/created:2`. */
  readonly step: string;
  readonly point: FaultPoint;
  /** `again`: the recoveries from the first kill are killed, too, each at the next of its steps. */
  readonly variant: 'once' | 'again';
  readonly life: LifeKind;
  /** For one daemon after the other. */
  readonly plans: readonly string[];
  readonly startMayFail: boolean;
  /** The recovery from it takes its time. */
  readonly slowRecovery: boolean;
  /** What happens while no daemon runs. */
  readonly meanwhile?: Meanwhile;
  /** In the order of a pod's life, for those that can be had in one life with others, one of each stage. */
  readonly stage?: number;
}

/** What must fail first, so that there is something to undo. */
const FAILURES: Readonly<Record<string, string>> = {
  'undo-run': 'run-sandbox/infra-started:error',
  'undo-create': 'create-container/snapshot-held:error',
  'undo-start': 'start-container/task-held:error',
};

const LINGERING: Readonly<Record<string, string>> = {
  // So that what is being written meanwhile has come to the disk when it dies.
  'start-container/outcome-known': 'kill-after=300',
  // So that CRIU is at work.
  'checkpoint/dumping': 'kill-after=100',
};

/** Where the daemon before was killed, so that the recovery has what this point is about. */
const BEFORE: Readonly<Record<string, string>> = {
  'recovery/container-rolled-back': 'create-container/snapshot-made:2',
  'recovery/start-undoing': 'start-container/task-made:2',
  'recovery/start-cleaned-up': 'start-container/task-made:2',
  'recovery/start-released': 'start-container/task-made:2',
  'recovery/start-undone': 'start-container/task-made:2',
  'recovery/start-adopted': 'start-container/command-started:2',
  'recovery/sandbox-rolled-back': 'run-sandbox/network-connected',
  'recovery/sandbox-not-ready': 'stop-sandbox/containers-ended',
  'recovery/watched': 'stop-container/signalled',
};
const MEANWHILE: Readonly<Record<string, Meanwhile>> = {
  'recovery/orphan-released': 'orphan',
  'recovery/sandbox-not-ready': 'infra-dies',
};
const BEFORE_OTHERWISE = 'start-container/exit-awaited:2';

export const RECOVERY_POINTS = ALL_POINTS.filter((point) => point.startsWith('recovery/'));

/** Those that every recovery comes to, whatever was going on. */
export const SURE_RECOVERY_POINTS: readonly FaultPoint[] = [
  'recovery/layers-opened',
  'recovery/snapshots-opened',
  'recovery/images-opened',
  'recovery/opened',
  'recovery/execs-ended',
  'recovery/orphans-found',
  'recovery/objects-done',
  'recovery/resumed',
  'recovery/orphans-done',
  'recovery/network-repaired',
  'recovery/images-swept',
];

/** Verbs after which the client repeats its call before the recovery has come to what is half made. */
const REPEATED_EARLY: readonly string[] = [
  'run-sandbox',
  'set-up-host',
  'add-network',
  'create-container',
  'mount-image-volume',
  'start-container',
];

/** Verbs that are gone through several times, for several things, of which the later ones are cases of their own. */
const TIMES: Readonly<Partial<Record<FaultVerb, number>>> = {
  // the fourth where the pod has users of its own
  'pin-namespace': 4,
  unpin: 4,
  // bridge and portmap
  'add-network': 2,
  'delete-network': 2,
  // the infra process, then a container
  'make-task': 2,
  // two layers
  'unpack-layer': 2,
  // the pod's, then a container's
  'update-resources': 2,
};

/**
 * A life goes through the stages in this order, so that it can be killed once in each. Making the sandbox is begun anew after a
 * kill, which makes two of it.
 */
const STAGES: readonly RegExp[] = [
  /^(pin-namespace\/|set-up-host\/|add-network\/|make-task\/[^:]*$)/,
  /^run-sandbox\//,
  /^(create-container|make-snapshot|mount-image-volume)\//,
  /^make-task\/.*:2$/,
  /^start-container\//,
  /^(exit|delete-task|release\/(task|rootfs|bundle)-)/,
  /^update-resources\//,
  /^exec\//,
  /^stop-container\//,
  /^(remove-container\/|remove-tree\/|release\/snapshot-)/,
  /^(stop-sandbox\/|delete-network\/|unpin\/|release\/(cni|pin|tmpfs|portmap-chains|iptables-rule|sysctl|cni-bridge)-)/,
  /^(remove-sandbox\/|release\/(directory|cgroup)-)/,
];

export const ALL_CASES: readonly FaultCase[] = ALL_POINTS.flatMap((point) =>
  Array.from({ length: TIMES[verbOf(point)] ?? 1 }, (_, i) => i + 1).flatMap((time) => casesOf(point, time)),
);

/** One row of the table each. */
export const ALL_STEPS: readonly string[] = [...new Set(ALL_CASES.map(({ step }) => step))];

function verbOf(point: FaultPoint): FaultVerb {
  return point.slice(0, point.indexOf('/')) as FaultVerb;
}

function lifeOf(verb: FaultVerb, time: number): LifeKind {
  if (verb === 'checkpoint') return 'checkpoint';
  if (verb === 'hold-namespaces' || time > 3) return 'mapped-pod';
  return ['pull-image', 'unpack-layer', 'remove-image'].includes(verb) ? 'image' : 'pod';
}

function casesOf(point: FaultPoint, time: number): FaultCase[] {
  const verb = verbOf(point);
  const step = time === 1 ? point : `${point}:${String(time)}`;
  const failure = FAILURES[verb];
  const life = lifeOf(verb, time);
  const base = {
    step,
    point,
    life,
    startMayFail: verb === 'undo-start',
    slowRecovery: false,
  } as const;
  if (verb === 'recovery') {
    const plans = [BEFORE[point] ?? BEFORE_OTHERWISE, point];
    const meanwhile = MEANWHILE[point];
    const more = meanwhile === undefined ? {} : { meanwhile };
    return (['once', 'again'] as const).map((variant) => ({ ...base, ...more, variant, plans }));
  }
  const kill = [step, LINGERING[point] ?? []].flat().join(':');
  const plans = [failure === undefined ? kill : `${failure},${kill}`];
  const stage = life === 'pod' ? STAGES.findIndex((one) => one.test(step)) : -1;
  return [
    {
      ...base,
      variant: 'once',
      plans,
      slowRecovery: REPEATED_EARLY.includes(verb),
      ...(stage < 0 ? {} : { stage }),
    },
    { ...base, variant: 'again', plans },
  ];
}
