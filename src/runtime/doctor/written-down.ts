import { dirname, join } from 'node:path';
import { taskOf } from '../container/state.ts';
import type { RuntimeContext } from '../context.ts';
import { readPlan, type PlainPlan } from '../network/network-plan.ts';
import { addressesOf } from '../network/plugin-chain.ts';
import { laneOfOrphan } from '../recovery/orphan.ts';
import { containerOwner, parseOwner, sandboxOwner } from '../store/owners.ts';
import { attachSocketPath } from '../task/bundle-files.ts';
import { KINDS, type Kind, type LostOwner, type Owned } from './inventory.ts';

export type WrittenDownDeps = Pick<
  RuntimeContext,
  'sandboxes' | 'containers' | 'ledger' | 'paths' | 'settings' | 'retries'
>;

export interface WrittenDown {
  readonly known: ReadonlySet<string>;
  readonly owned: readonly Owned[];
  readonly lost: readonly LostOwner[];
}

/** What ledger and records say that this Gantry has. From memory. */
export function writtenDown(rt: WrittenDownDeps): WrittenDown {
  const known = new Set<string>();
  const lost: LostOwner[] = [];
  const owned: Owned[] = [];
  for (const { meta } of rt.sandboxes.list()) {
    known.add(meta.id);
    owned.push(...ofSandboxRecord(rt, meta.id));
  }
  for (const { meta } of rt.containers.list()) {
    known.add(meta.id);
    owned.push(...ofContainerRecord(rt, meta.id));
  }
  for (const owner of rt.ledger.owners()) {
    const parsed = parseOwner(owner);
    if (parsed !== undefined && !known.has(parsed.id)) {
      const holds = rt.ledger.entriesOf(owner).map(({ kind, key }) => `${kind} ${key}`);
      const waits = rt.retries.viewOf(laneOfOrphan({ kind: 'ledger', owner }));
      lost.push({ owner, holds, ...(waits === undefined ? {} : { waits }) });
    }
    owned.push(...ofLedger(rt, owner));
  }
  for (const { owner } of lost) known.add(parseOwner(owner)?.id ?? '');
  return { known, owned, lost };
}

/** Between two looks at what is written down lies the look at the machine: owned is what either says, needed what both say. */
export function mergeWritten(before: WrittenDown, after: WrittenDown): WrittenDown {
  const needed = new Set(before.owned.filter((thing) => thing.needed !== undefined).map(nameOf));
  const lostBefore = new Set(before.lost.map(({ owner }) => owner));
  return {
    known: before.known.union(after.known),
    owned: [
      ...after.owned.map((thing) => (needed.has(nameOf(thing)) ? thing : { ...thing, needed: undefined })),
      ...before.owned.map((thing) => ({ ...thing, needed: undefined })),
    ],
    lost: after.lost.filter(({ owner }) => lostBefore.has(owner)),
  };
}

function nameOf({ kind, key, owner }: Owned): string {
  return `${kind}\0${key}\0${owner}`;
}

/** What follows from a record: may be there, whatever the ledger says. */
function ofSandboxRecord(rt: WrittenDownDeps, id: string): Owned[] {
  const { meta, status } = rt.sandboxes.must(id);
  const { facts } = meta;
  const owner = sandboxOwner(id);
  const parent = rt.settings.cgroupParent;
  const cgroups: Owned[] = [];
  for (let path = facts.cgroupPath; path.startsWith(`${parent}/`); path = dirname(path)) {
    cgroups.push({ kind: 'cgroup', key: path, owner });
  }
  return [
    ...cgroups,
    ...(status.infra === undefined || !isLive(rt, id)
      ? []
      : [{ kind: 'monitor', key: status.infra.bundleDir, owner, needed: 'use' } as const]),
    ...(facts.netnsPath === undefined ? [] : [{ kind: 'netns', key: facts.netnsPath, owner } as const]),
    socketOf(rt, id, owner),
  ];
}

function ofContainerRecord(rt: WrittenDownDeps, id: string): Owned[] {
  const { status } = rt.containers.must(id);
  const owner = containerOwner(id);
  const { kind } = status.state;
  const task = kind === 'running' && status.stop === undefined ? taskOf(status) : undefined;
  return [
    socketOf(rt, id, owner),
    ...(task === undefined
      ? []
      : [
          { kind: 'task', key: id, owner, needed: 'use' } as const,
          { kind: 'monitor', key: task.bundleDir, owner, needed: 'use' } as const,
        ]),
  ];
}

function socketOf(rt: WrittenDownDeps, id: string, owner: string): Owned {
  return { kind: 'socket', key: dirname(attachSocketPath(rt.paths.sockets, id)), owner };
}

function ofLedger(rt: WrittenDownDeps, owner: string): Owned[] {
  const parsed = parseOwner(owner);
  const use = parsed === undefined || isLive(rt, parsed.id);
  // What is in the retry queue is being released: it says itself how far that is.
  const waits = parsed !== undefined && (rt.retries.has(parsed.id) || rt.retries.has(owner));
  const mayBeStruck = parsed !== undefined && !waits && isAtRest(rt, parsed.id);
  return rt.ledger.entriesOf(owner).flatMap((entry): Owned[] => {
    const needed = use
      ? parsed === undefined && entry.state === 'intended'
        ? undefined
        : 'use'
      : mayBeStruck && entry.state === 'held'
        ? 'strike'
        : undefined;
    if (entry.kind === 'cni') {
      return addressFiles(rt, entry.data['plan'] as PlainPlan).map((key) => ({
        kind: 'cni',
        key,
        owner,
        // Undoing it is the plug-in's part, which does not mind that the reservation is gone.
        ...(needed === 'use' ? { needed } : {}),
      }));
    }
    // A task's own process is looked for by the record.
    if (entry.kind === 'task') return [];
    const kind = entry.kind === 'pin' && dirname(entry.key) === rt.settings.netnsDir ? 'netns' : entry.kind;
    if (!isKindName(kind)) return [];
    return [{ kind, key: entry.key, owner, ...(needed === undefined ? {} : { needed }) }];
  });
}

function isKindName(kind: string): kind is Kind {
  return (KINDS as readonly string[]).includes(kind);
}

/** Uses all that the ledger says it has. */
function isLive(rt: WrittenDownDeps, id: string): boolean {
  const sandbox = rt.sandboxes.get(id)?.status;
  if (sandbox !== undefined) {
    return sandbox.state.kind === 'ready' && sandbox.stopping === undefined && sandbox.removing === undefined;
  }
  const container = rt.containers.get(id)?.status;
  return container?.state.kind === 'running' && container.stop === undefined && container.removing === undefined;
}

/** Neither in use nor on its way anywhere. */
function isAtRest(rt: WrittenDownDeps, id: string): boolean {
  const sandbox = rt.sandboxes.get(id)?.status;
  if (sandbox !== undefined) return sandbox.state.kind === 'notready' && sandbox.removing === undefined;
  const container = rt.containers.get(id)?.status;
  if (container === undefined || container.removing !== undefined) return false;
  return container.state.kind === 'exited' || (container.state.kind === 'created' && container.start === undefined);
}

/** Of the default network, whose reservations lie in a folder of ours. */
function addressFiles({ paths }: WrittenDownDeps, plain: PlainPlan): string[] {
  const { network, result, host } = readPlan(plain);
  if (host === undefined || result === undefined) return [];
  return addressesOf(result).map((address) => join(paths.ipam, network.name, address));
}
