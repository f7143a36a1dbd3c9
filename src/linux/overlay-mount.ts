import { mkdtemp, rmdir, symlink, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Op } from '../lib/abort.ts';
import { failedPrecondition, invalidArgument } from '../lib/errors.ts';
import type { HangSafe } from './hang-safe.ts';
import type { MappedOverlays } from './mapped-overlay.ts';
import { escapeBackslash, overlayError, overlaySettings, type OverlayRequest } from './overlay-settings.ts';
import type { Syscalls } from './syscalls.ts';

interface Deps {
  readonly syscalls: Syscalls;
  readonly hangSafe: Pick<HangSafe, 'mountFrom'>;
  readonly mapped: Pick<MappedOverlays, 'make'>;
}

/** mount(2) copies one page of options and cuts off the rest without a word. */
const OPTION_PAGE_BYTES = 4095;

/** Through fsopen with one `lowerdir+` per layer (Linux 6.8) where `byLayer`, else through mount(2). */
export async function mountOverlay(op: Op, deps: Deps, byLayer: boolean, request: OverlayRequest): Promise<void> {
  op.signal.throwIfAborted();
  if (request.lowerDirs.length === 0) throw invalidArgument('an overlay needs at least one lower directory');
  if ((request.upperDir === undefined) !== (request.workDir === undefined)) {
    throw invalidArgument('an overlay has both an upper and a work directory, or neither');
  }
  if (request.userNamespace !== undefined) await mountMapped(op, deps, byLayer, request, request.userNamespace);
  else if (byLayer) await mountByLayer(deps.syscalls, request);
  else await mountByOptions(op, deps, request);
}

/** Whether this kernel takes layers one by one. Asked with options only: nothing is mounted. */
export async function canMountByLayer(syscalls: Syscalls): Promise<boolean> {
  let context: number;
  try {
    context = syscalls.fsopen('overlay');
  } catch {
    return false;
  }
  try {
    // Before 6.5 any option is taken as text and refused only at the end: a kernel that likes this one is such a kernel.
    const refuses = await syscalls.fsconfigFlag(context, 'no-such-option').then(
      () => false,
      () => true,
    );
    if (!refuses) return false;
    syscalls.fsMessages(context);
    await syscalls.fsconfigString(context, 'lowerdir+', '/');
    return true;
  } catch {
    return !syscalls.fsMessages(context).some((line) => /unknown parameter/i.test(line));
  } finally {
    syscalls.close(context);
  }
}

async function mountMapped(
  op: Op,
  { syscalls, mapped }: Deps,
  byLayer: boolean,
  { target, ...request }: OverlayRequest,
  userNamespace: string,
): Promise<void> {
  if (!byLayer) throw failedPrecondition('this kernel takes no layers that are mapped to a user namespace');
  const mount = await mapped.make(op, { ...request, userNamespace });
  try {
    op.signal.throwIfAborted();
    await syscalls.moveMount(mount, target);
  } finally {
    syscalls.close(mount);
  }
}

async function mountByLayer(syscalls: Syscalls, request: OverlayRequest): Promise<void> {
  const context = syscalls.fsopen('overlay');
  try {
    await configure(syscalls, context, request);
    const mount = await syscalls.fsmount(context, 0);
    try {
      await syscalls.moveMount(mount, request.target);
    } finally {
      syscalls.close(mount);
    }
  } finally {
    syscalls.close(context);
  }
}

async function configure(syscalls: Syscalls, context: number, request: OverlayRequest): Promise<void> {
  let layer: string | undefined;
  try {
    for (const setting of overlaySettings(request)) {
      layer = setting.layer;
      const { key, value } = setting;
      if (value === undefined) await syscalls.fsconfigFlag(context, key);
      else await syscalls.fsconfigString(context, key, value);
    }
    layer = undefined;
    await syscalls.fsconfigCreate(context);
  } catch (error) {
    throw overlayError(error, request, syscalls.fsMessages(context), layer);
  }
}

async function mountByOptions(op: Op, { syscalls, hangSafe }: Deps, request: OverlayRequest): Promise<void> {
  const data = optionString(request, request.lowerDirs.map(escapeLower));
  if (Buffer.byteLength(data) <= OPTION_PAGE_BYTES) {
    await syscalls.mount('overlay', request.target, 'overlay', 0, data).catch((error: unknown) => {
      throw overlayError(error, request, []);
    });
    return;
  }
  await withShortNames(request, async (directory, names) => {
    const short = optionString(request, names);
    if (Buffer.byteLength(short) > OPTION_PAGE_BYTES) {
      throw invalidArgument(
        `${String(request.lowerDirs.length)} layers do not fit into this kernel's mount options (Linux 6.8 or later has no such limit)`,
      );
    }
    const { target } = request;
    await hangSafe
      .mountFrom(op, { directory, source: 'overlay', target, type: 'overlay', flags: 0, data: short })
      .catch((error: unknown) => {
        throw overlayError(error, request, []);
      });
  });
}

/** Symbolic links with names of one to three characters. The kernel follows them while mounting and not afterwards. */
async function withShortNames(
  request: OverlayRequest,
  mount: (directory: string, names: string[]) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(dirname(request.target), '.layers-'));
  const names = request.lowerDirs.map((_lower, index) => index.toString(36));
  try {
    for (const [index, lower] of request.lowerDirs.entries()) {
      await symlink(lower, join(directory, index.toString(36)));
    }
    await mount(directory, names);
  } finally {
    for (const name of names) await unlink(join(directory, name)).catch(() => undefined);
    await rmdir(directory).catch(() => undefined);
  }
}

function optionString(request: OverlayRequest, lowerNames: readonly string[]): string {
  const parts = [`lowerdir=${lowerNames.join(':')}`];
  if (request.upperDir !== undefined && request.workDir !== undefined) {
    parts.push(`upperdir=${escapeOption(request.upperDir)}`, `workdir=${escapeOption(request.workDir)}`);
  }
  return [...parts, ...(request.options ?? [])].join(',');
}

function escapeOption(path: string): string {
  return escapeBackslash(path).replaceAll(',', '\\,');
}

function escapeLower(path: string): string {
  return escapeOption(path).replaceAll(':', '\\:');
}
