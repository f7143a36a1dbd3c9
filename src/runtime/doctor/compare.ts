import type { Finding } from '../../lib/doctor.ts';
import { KINDS, type Found, type Inventory, type Kind, type LostOwner, type Owned, type Remedy } from './inventory.ts';

export interface RemediedFinding {
  readonly finding: Finding;
  readonly remedy?: Remedy;
}

/**
 * What is there and nobody owns, what somebody owns and is not there, and what is others'. Pure. In the order in which it is to
 * be put right.
 */
export function compare(inventory: Inventory): RemediedFinding[] {
  const owned = new Set(inventory.owned.map(nameOf));
  // That by its name it looks like another's says nothing where it is written down: it was made under other settings.
  const there = new Set(inventory.found.map(nameOf));
  const mounts = inventory.found.filter(({ kind, foreign }) => kind === 'mount' && foreign !== undefined);
  const findings = [
    ...inventory.lost.map(lostOwner),
    ...inventory.found.flatMap((found) => {
      if (owned.has(nameOf(found)) || found.ids?.some((id) => inventory.known.has(id)) === true) return [];
      return [found.foreign === undefined ? orphan(found, inTheWay(found, mounts)) : foreign(found, found.foreign)];
    }),
    ...inventory.owned
      .filter((thing) => thing.needed !== undefined && inventory.looked.has(thing.kind) && !there.has(nameOf(thing)))
      .map(missing),
  ];
  return findings.sort((a, b) => orderOf(a.finding) - orderOf(b.finding));
}

function nameOf({ kind, key }: { readonly kind: Kind; readonly key: string }): string {
  return `${kind}\0${key}`;
}

/** Foreign ones last; else by kind. */
function orderOf({ problem, kind }: Finding): number {
  return (problem === 'foreign' ? KINDS.length : 0) + KINDS.indexOf(kind as Kind);
}

function lostOwner({ owner, holds, waits }: LostOwner): RemediedFinding {
  if (waits !== undefined) {
    const tries = waits.attempts === 1 ? '1 attempt' : `${String(waits.attempts)} attempts`;
    const what = holds.length === 0 ? ownerName(owner) : `${holds.join(', ')} of ${ownerName(owner)}`;
    const message = `${what} is not released after ${tries}, and is tried again by itself: ${waits.lastError}`;
    return {
      finding: { problem: 'blocked', kind: 'ledger', key: owner, message, action: 'try it again at once' },
      remedy: { do: 'release', owner },
    };
  }
  const message =
    holds.length === 0 ? `${owner} is gone` : `${owner} is gone, but the ledger says that it held ${holds.join(', ')}`;
  return {
    finding: { problem: 'orphan', kind: 'ledger', key: owner, message, action: 'release what it held, last first' },
    remedy: { do: 'release', owner },
  };
}

const REMOVAL: Readonly<Record<Kind, string>> = {
  ledger: 'release it',
  monitor: 'end it, its OCI runtime and what they started',
  'oci-state': 'let the OCI runtime delete the container, by force',
  'systemd-unit': 'have systemd stop it',
  cgroup: 'end what runs in it and remove it',
  cni: 'give the address back',
  netns: 'unmount and remove it',
  pin: 'unmount and remove it',
  tmpfs: 'unmount it',
  rootfs: 'unmount it',
  'iptables-rule': 'delete the rule',
  'cni-bridge': 'delete the bridge',
  bundle: 'remove it, stopping at anything that is mounted in it',
  directory: 'remove it, stopping at anything that is mounted in it',
  snapshot: 'remove it, stopping at anything that is mounted in it',
  staging: 'remove it',
  layer: 'remove it',
  'exit-file': 'remove it',
  socket: 'remove it',
  task: 'delete it',
  mount: 'leave it',
};

/** What somebody else has mounted on it or in it. */
function inTheWay({ key }: Found, mounts: readonly Found[]): Found | undefined {
  return mounts.find((mount) => mount.key === key || mount.key.startsWith(`${key}/`));
}

function orphan(found: Found, obstacle: Found | undefined): RemediedFinding {
  const { kind, key, ids, note } = found;
  const owner = ids?.[0] === undefined ? 'nobody owns it' : `its owner ${shortId(ids[0])} is gone`;
  const message = note === undefined ? owner : `${owner}; ${note}`;
  const remedy = { do: 'remove', found } as const;
  if (obstacle === undefined) {
    return { finding: { problem: 'orphan', kind, key, message, action: REMOVAL[kind] }, remedy };
  }
  const why = `${message}, but on ${obstacle.key} is ${obstacle.foreign ?? 'something'}`;
  return { finding: { problem: 'blocked', kind, key, message: why, action: 'try it all the same' }, remedy };
}

function foreign({ kind, key, note }: Found, whose: string): RemediedFinding {
  return { finding: { problem: 'foreign', kind, key, message: note === undefined ? whose : `${whose}; ${note}` } };
}

function missing(owned: Owned): RemediedFinding {
  const { kind, key, owner, needed } = owned;
  const finding = { problem: 'missing', kind, key } as const;
  const name = ownerName(owner);
  if (needed === 'strike') {
    const message = `${name} still has it in the ledger, but it is gone`;
    return {
      finding: { ...finding, message, action: 'strike it from the ledger' },
      remedy: { do: 'strike', owned },
    };
  }
  const message = `${name} needs it, and it is gone`;
  const sandboxId = /^sandbox\/(.+)$/.exec(owner)?.[1];
  if (kind === 'iptables-rule') {
    return { finding: { ...finding, message, action: 'put the rule back' }, remedy: { do: 'repair-network' } };
  }
  if (sandboxId !== undefined && ['netns', 'pin', 'tmpfs', 'directory'].includes(kind)) {
    return {
      finding: { ...finding, message, action: 'mark the sandbox as not ready, so that its pod gets a new one' },
      remedy: { do: 'not-ready', sandboxId, why: `${kind} ${key} is gone` },
    };
  }
  if (kind === 'task') {
    return {
      finding: { ...finding, message: `${name} is said to run, but its process is gone`, action: 'record its exit' },
      remedy: { do: 'look-for-exits' },
    };
  }
  const advice = sandboxId !== undefined && kind === 'monitor' ? INFRA_MONITOR_ADVICE : ADVICE[kind];
  return { finding: { ...finding, message: `${message}: ${advice ?? 'restart it'}` } };
}

/** Where nothing can be put right without ending what runs: that is for its owner to decide. */
const ADVICE: Readonly<Partial<Record<Kind, string>>> = {
  monitor: 'its output is lost and its exit code may be; restart the container',
  cni: 'the address may be given out twice; restart the pod',
  layer: 'remove the image and pull it again',
  'cni-bridge': 'it comes back with the next pod; restart those that are on it',
};

/** The process that holds a pod's PID namespace says nothing, and its exit code is of no interest. */
const INFRA_MONITOR_ADVICE = 'its PID namespace goes on without it, and ends with the pod; nothing needs to be done';

function ownerName(owner: string): string {
  return owner.replace(/[0-9a-f]{64}/, shortId).replace(/^(sandbox|container)\//, '$1 ');
}

function shortId(id: string): string {
  return /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 13) : id;
}
