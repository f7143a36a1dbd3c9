import assert from 'node:assert/strict';
import test from 'node:test';
import type { LayerMarker } from './layer-marker.ts';
import { lowerStack, MAX_LAYERS } from './lower-stack.ts';

function layer(diffId: string, given: Partial<LayerMarker> = {}): LayerMarker {
  return {
    version: 1,
    diffId,
    bytes: 0,
    entries: 0,
    impliedDirectories: [],
    opaqueRoot: false,
    skippedXattrs: [],
    ...given,
  };
}

test('top first, and the root as the topmost layer that describes it has it', () => {
  const root = { mode: 0o700, uid: 1, gid: 2 };
  const stack = lowerStack([
    layer('bottom', { root: { mode: 0o755, uid: 0, gid: 0 } }),
    layer('middle', { root }),
    layer('top'),
  ]);
  assert.deepEqual(stack, { diffIds: ['top', 'middle', 'bottom'], root, hasImplied: false });
});

test('no layers at all', () => {
  assert.deepEqual(lowerStack([]), { diffIds: [], root: { mode: 0o755, uid: 0, gid: 0 }, hasImplied: false });
});

test('a layer that comes twice is stacked once, where it hides most', () => {
  assert.deepEqual(lowerStack([layer('a'), layer('b'), layer('a')]).diffIds, ['a', 'b']);
});

test('an opaque root ends the stack', () => {
  assert.deepEqual(lowerStack([layer('a'), layer('b', { opaqueRoot: true }), layer('c')]).diffIds, ['c', 'b']);
});

test('more than the kernel takes is an error that says so', () => {
  const layers = Array.from({ length: MAX_LAYERS + 1 }, (_unused, i) => layer(String(i)));
  assert.throws(() => lowerStack(layers), { kind: 'FailedPrecondition', message: /501 layers.*500/ });
});
