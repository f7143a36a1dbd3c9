import { invalidArgument } from '../../lib/errors.ts';
import type { ImageImport } from '../../lib/image-import.ts';
import type { ObjectState } from '../../lib/object-state.ts';
import {
  Blocker,
  Entry,
  ImportedImage as WireImage,
  ImportImagesRequest,
  ObjectState as WireObject,
  PendingItem as WireItem,
  Subject,
  VersionResponse,
} from './gen/inspector.ts';
import type {
  ExplainedEntry,
  ImportedImage,
  InspectorSubject,
  InspectorVersion,
  PendingBlocker,
  PendingItem,
} from './inspector.ts';

/** Between our shapes, where what is not known is absent, and protobuf's, where it is empty. */

const OUTCOMES = ['ok', 'failed', 'blocked'] as const;

export function importToWire({ source, ...request }: ImageImport): ImportImagesRequest {
  const { entrypoint = [], cmd = [], env = [] } = request;
  const lists = { entrypoint: [...entrypoint], cmd: [...cmd], env: [...env] };
  return ImportImagesRequest.fromPartial({ ...request, ...lists, rootfs: source === 'rootfs' });
}

export function importFromWire({ path, rootfs, ...settings }: ImportImagesRequest): ImageImport {
  return {
    ...{ path, source: rootfs ? 'rootfs' : 'archive' },
    ...Object.fromEntries(Object.entries(settings).filter(([, value]) => value.length > 0)),
  };
}

export function imageToWire({ id, tags, digests, sizeBytes }: ImportedImage): WireImage {
  return WireImage.fromPartial({ id, tags: [...tags], digests: [...digests], sizeBytes: whole(sizeBytes) });
}

export function imageFromWire({ sizeBytes, ...image }: WireImage): ImportedImage {
  return { ...image, sizeBytes: Number(sizeBytes) };
}

export function subjectToWire(subject: InspectorSubject): Subject {
  return Subject.fromPartial(subject);
}

export function subjectFromWire(wire: Subject | undefined): InspectorSubject {
  return Object.fromEntries(Object.entries(wire ?? {}).filter(([, value]) => value !== ''));
}

export function versionToWire(version: InspectorVersion): VersionResponse {
  return VersionResponse.fromPartial({
    ...version,
    pid: BigInt(version.pid),
    startedAtWallMs: whole(version.startedAtWallMs),
  });
}

export function versionFromWire(wire: VersionResponse): InspectorVersion {
  return { ...wire, pid: Number(wire.pid), startedAtWallMs: Number(wire.startedAtWallMs) };
}

export function entryToWire(entry: ExplainedEntry): Entry {
  return Entry.fromPartial({
    seq: whole(entry.seq),
    wallMs: whole(entry.wallMs),
    bootId: entry.bootId,
    subject: subjectToWire(entry.subject),
    what: entry.what,
    message: entry.message,
    why: entry.why ?? '',
    outcome: entry.outcome ?? '',
    durationMs: entry.durationMs,
    dataJson: entry.data === undefined ? '' : JSON.stringify(entry.data),
  });
}

export function entryFromWire(wire: Entry): ExplainedEntry {
  const outcome = OUTCOMES.find((known) => known === wire.outcome);
  return {
    seq: Number(wire.seq),
    wallMs: Number(wire.wallMs),
    bootId: wire.bootId,
    subject: subjectFromWire(wire.subject),
    what: wire.what,
    message: wire.message,
    ...(wire.why === '' ? {} : { why: wire.why }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(wire.durationMs === undefined ? {} : { durationMs: wire.durationMs }),
    ...(wire.dataJson === '' ? {} : { data: objectOf(wire.dataJson) }),
  };
}

export function objectToWire(state: ObjectState): WireObject {
  const { kind, id, name, podName, podNamespace, podUid } = state;
  return WireObject.fromPartial({
    kind,
    subject: subjectToWire({
      ...(podUid === undefined ? {} : { podUid }),
      ...(podNamespace === undefined ? {} : { podNamespace }),
      ...(podName === undefined ? {} : { podName }),
      ...(kind === 'container' ? { containerId: id, containerName: name } : { sandboxId: id }),
    }),
    state: state.state,
    attempt: state.attempt,
    exitCode: state.exitCode,
    reason: state.reason ?? '',
    message: state.message ?? '',
    createdAtWallMs: whole(state.createdAtWallMs),
    startedAtWallMs: state.startedAtWallMs === undefined ? undefined : whole(state.startedAtWallMs),
    finishedAtWallMs: state.finishedAtWallMs === undefined ? undefined : whole(state.finishedAtWallMs),
  });
}

export function objectFromWire(wire: WireObject): ObjectState {
  const { podUid, podNamespace, podName, sandboxId, containerId, containerName } = subjectFromWire(wire.subject);
  const kind = wire.kind === 'sandbox' ? 'sandbox' : 'container';
  return {
    kind,
    id: (kind === 'sandbox' ? sandboxId : containerId) ?? '',
    name: (kind === 'sandbox' ? podName : containerName) ?? '',
    ...(podNamespace === undefined ? {} : { podNamespace }),
    ...(podName === undefined ? {} : { podName }),
    ...(podUid === undefined ? {} : { podUid }),
    state: wire.state,
    attempt: wire.attempt,
    ...(wire.exitCode === undefined ? {} : { exitCode: wire.exitCode }),
    ...(wire.reason === '' ? {} : { reason: wire.reason }),
    ...(wire.message === '' ? {} : { message: wire.message }),
    createdAtWallMs: Number(wire.createdAtWallMs),
    ...(wire.startedAtWallMs === undefined ? {} : { startedAtWallMs: Number(wire.startedAtWallMs) }),
    ...(wire.finishedAtWallMs === undefined ? {} : { finishedAtWallMs: Number(wire.finishedAtWallMs) }),
  };
}

export function itemToWire(item: PendingItem): WireItem {
  return WireItem.fromPartial({
    subject: subjectToWire(item.subject),
    kind: item.kind,
    key: item.key,
    message: item.message,
    sinceWallMs: whole(item.sinceWallMs),
    attempts: item.attempts,
    lastError: item.lastError ?? '',
    nextAttemptWallMs: item.nextAttemptWallMs === undefined ? undefined : whole(item.nextAttemptWallMs),
    blockers: item.blockers.map(blockerToWire),
  });
}

export function itemFromWire(wire: WireItem): PendingItem {
  return {
    subject: subjectFromWire(wire.subject),
    kind: wire.kind,
    key: wire.key,
    message: wire.message,
    sinceWallMs: Number(wire.sinceWallMs),
    attempts: wire.attempts,
    ...(wire.lastError === '' ? {} : { lastError: wire.lastError }),
    ...(wire.nextAttemptWallMs === undefined ? {} : { nextAttemptWallMs: Number(wire.nextAttemptWallMs) }),
    blockers: wire.blockers.map(blockerFromWire),
  };
}

function blockerToWire(blocker: PendingBlocker): Blocker {
  return Blocker.fromPartial({
    path: blocker.path,
    reason: blocker.reason,
    source: blocker.source ?? '',
    fsType: blocker.fsType ?? '',
    holders: (blocker.holders ?? []).map((holder) => ({ pid: BigInt(holder.pid), command: holder.comm ?? '' })),
    message: blocker.message,
  });
}

function blockerFromWire(wire: Blocker): PendingBlocker {
  return {
    path: wire.path,
    reason: wire.reason,
    ...(wire.source === '' ? {} : { source: wire.source }),
    ...(wire.fsType === '' ? {} : { fsType: wire.fsType }),
    ...(wire.holders.length === 0
      ? {}
      : {
          holders: wire.holders.map((holder) => ({
            pid: Number(holder.pid),
            ...(holder.command === '' ? {} : { comm: holder.command }),
          })),
        }),
    message: wire.message,
  };
}

/** Clocks give fractions of a millisecond; the wire has none. */
function whole(value: number): bigint {
  return BigInt(Math.round(value));
}

function objectOf(json: string): Record<string, unknown> {
  try {
    return JSON.parse(json) as Record<string, unknown>;
  } catch (error) {
    throw invalidArgument('the data of a journal entry is no JSON', { cause: error });
  }
}
