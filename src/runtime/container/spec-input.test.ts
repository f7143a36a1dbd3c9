import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hiddenPaths } from './spec-input.ts';

test('no paths to mask are none for a pod with users of its own, and the defaults for others', () => {
  const named = { maskedPaths: ['/proc/keys'], readonlyPaths: ['/proc/bus'] };
  const none = { maskedPaths: [], readonlyPaths: [] };
  for (const [asked, hasOwnUsers, wanted] of [
    [named, false, named],
    [named, true, named],
    [none, false, {}],
    [undefined, false, {}],
    [none, true, none],
    [{ ...named, readonlyPaths: [] }, true, { ...named, readonlyPaths: [] }],
  ] as const) {
    assert.deepEqual(
      hiddenPaths(asked === undefined ? undefined : (structuredClone(asked) as typeof none), hasOwnUsers),
      wanted,
    );
  }
});
