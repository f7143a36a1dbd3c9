import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDurationMs, parseWhole } from './arguments.ts';
import { parseResourceArgs } from './resources.ts';

const durations: readonly [text: string, ms: number][] = [
  ['0', 0],
  ['30', 30_000],
  ['30s', 30_000],
  ['1m30s', 90_000],
  ['500ms', 500],
  ['1.5h', 5_400_000],
];
for (const [text, ms] of durations)
  test(`duration ${text}`, () => assert.equal(parseDurationMs('--timeout', text), ms));
for (const text of ['', 'x', '5x', '1m 30s', '-3s']) {
  test(`duration "${text}" is refused with the flag's name`, () =>
    assert.throws(() => parseDurationMs('--timeout', text), /--timeout/));
}

test('whole numbers have a lower bound', () => {
  assert.equal(parseWhole('--tail', '-1', -1), -1);
  for (const text of ['1.5', 'x', '', '-2']) assert.throws(() => parseWhole('--tail', text, -1), /--tail/);
});

test("kubectl's three forms of naming resources", () => {
  assert.deepEqual(parseResourceArgs(['po']), [{ resource: 'pods', namespaced: true, names: [] }]);
  assert.deepEqual(parseResourceArgs(['pod', 'a', 'b']), [{ resource: 'pods', namespaced: true, names: ['a', 'b'] }]);
  assert.deepEqual(parseResourceArgs(['pod/a', 'cm/b', 'pods/c']), [
    { resource: 'pods', namespaced: true, names: ['a', 'c'] },
    { resource: 'configmaps', namespaced: true, names: ['b'] },
  ]);
  assert.deepEqual(
    parseResourceArgs(['pods,nodes']).map((r) => r.resource),
    ['pods', 'nodes'],
  );
});

const refused: readonly (readonly string[])[] = [
  [],
  ['deployments'],
  ['pods,nodes', 'a'],
  ['pod/a', 'b'],
  ['pod/'],
  ['pod/a/b'],
];
for (const args of refused) test(`'${args.join(' ')}' is refused`, () => assert.throws(() => parseResourceArgs(args)));
