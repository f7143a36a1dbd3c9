import { failedPrecondition } from '../../lib/errors.ts';
import type { DirectoryAttributes, LayerMarker } from './layer-marker.ts';

/** The kernel's own limit (OVL_MAX_STACK). */
export const MAX_LAYERS = 500;

export interface LowerStack {
  /** What overlayfs gets, top first. */
  readonly diffIds: readonly string[];
  /** How the image's root directory looks. */
  readonly root: DirectoryAttributes;
  /** Some layer holds directories that it does not describe. */
  readonly hasImplied: boolean;
}

const USUAL_ROOT: DirectoryAttributes = { mode: 0o755, uid: 0, gid: 0 };

/**
 * An image's layers (bottom first) as a stack of lower directories. The same layer twice says nothing new
 * the second time from below (overlayfs refuses it with ELOOP): the upper one stays. A layer with an opaque root ends
 * the stack, which overlayfs itself would not see.
 * @throws FailedPrecondition for more layers than the kernel can stack.
 */
export function lowerStack(markers: readonly LayerMarker[]): LowerStack {
  const stack: LayerMarker[] = [];
  for (const marker of [...markers].reverse()) {
    if (stack.some((above) => above.diffId === marker.diffId)) continue;
    stack.push(marker);
    if (marker.opaqueRoot) break;
  }
  if (stack.length > MAX_LAYERS) {
    throw failedPrecondition(
      `the image has ${String(stack.length)} layers; the kernel's overlayfs takes ${String(MAX_LAYERS)}`,
    );
  }
  return {
    diffIds: stack.map((marker) => marker.diffId),
    root: stack.find((marker) => marker.root !== undefined)?.root ?? USUAL_ROOT,
    hasImplied: stack.some((marker) => marker.impliedDirectories.length > 0),
  };
}
