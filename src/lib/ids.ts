import { randomBytes, randomUUID } from 'node:crypto';

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** 64 hex digits, as every CRI runtime makes them. */
export type ContainerId = Branded<'ContainerId'>;
export type SandboxId = Branded<'SandboxId'>;
/** The `metadata.uid` of a pod object. */
export type PodUid = Branded<'PodUid'>;

export function newContainerId(): ContainerId {
  return randomBytes(32).toString('hex') as ContainerId;
}

export function newSandboxId(): SandboxId {
  return randomBytes(32).toString('hex') as SandboxId;
}

export function newUid(): string {
  return randomUUID();
}
