import type { IptablesRule } from '../network/iptables.ts';

/**
 * What the doctor compares: what is written down (ledger and records) and what is there. Both name a thing by kind and key.
 */

export const KINDS = [
  'ledger',
  'monitor',
  'oci-state',
  'systemd-unit',
  'cgroup',
  'cni',
  'netns',
  'pin',
  'tmpfs',
  'rootfs',
  'iptables-rule',
  'cni-bridge',
  'bundle',
  'directory',
  'snapshot',
  'staging',
  'layer',
  'exit-file',
  'socket',
  'task',
  'mount',
] as const;

/** Also the order in which they are put right: processes and mounts go before the folders that they are in. */
export type Kind = (typeof KINDS)[number];

/** A thing that somebody owns. */
export interface Owned {
  readonly kind: Kind;
  readonly key: string;
  /** In the ledger's words: `sandbox/<id>`, `container/<id>`, `network/<bridge>`; or `image …`. */
  readonly owner: string;
  /**
   * Whether it must be there now. `strike`: the owner does not live any more, so its entry can be undone and struck out;
   * `use`: the owner is using it.
   */
  readonly needed?: 'use' | 'strike';
}

/** A thing that is there. */
export interface Found {
  readonly kind: Kind;
  readonly key: string;
  /** Ids of sandboxes or containers that its name or place says it is of. */
  readonly ids?: readonly string[];
  /** Not this Gantry's: whose, as far as can be told. */
  readonly foreign?: string;
  /** More about it, for people: `2 processes`. */
  readonly note?: string;
  /** What taking it away needs. */
  readonly rule?: IptablesRule;
}

/** An owner in the ledger of whom no record is left. */
export interface LostOwner {
  readonly owner: string;
  /** `kind key` of what it holds. */
  readonly holds: readonly string[];
  /** Releasing it has failed, and is tried again by itself. */
  readonly waits?: { readonly attempts: number; readonly lastError: string };
}

export interface Inventory {
  /** Ids of all sandboxes and containers that there are, were a moment ago, or still have something in the ledger. */
  readonly known: ReadonlySet<string>;
  readonly owned: readonly Owned[];
  readonly lost: readonly LostOwner[];
  readonly found: readonly Found[];
  /** The kinds that could be looked at: of the others nothing can be missing. */
  readonly looked: ReadonlySet<Kind>;
}

export type Remedy =
  | { readonly do: 'remove'; readonly found: Found }
  | { readonly do: 'release'; readonly owner: string }
  | { readonly do: 'strike'; readonly owned: Owned }
  | { readonly do: 'not-ready'; readonly sandboxId: string; readonly why: string }
  | { readonly do: 'look-for-exits' }
  | { readonly do: 'repair-network' };
