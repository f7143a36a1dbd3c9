import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import {
  containerScope,
  ociScope,
  sliceBelow,
  sliceOfPath,
  slicePath,
  unitOfCgroup,
  wholeOfContainer,
} from './systemd-names.ts';

const ID = 'ab'.repeat(32);

test('a slice is where its name says', () => {
  const cases: [string, string][] = [
    ['gantry.slice', '/gantry.slice'],
    ['a-b-c.slice', '/a.slice/a-b.slice/a-b-c.slice'],
    ['kubepods-besteffort-pod1_2.slice', '/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice'],
    ['a\\x2db-c.slice', '/a\\x2db.slice/a\\x2db-c.slice'],
    ['system.slice', '/system.slice'],
  ];
  for (const [name, path] of cases) assert.equal(slicePath(name), path);
});

test('what is no name of a slice', () => {
  const names = [
    ...['', '.slice', '-.slice', '-a.slice', 'a-.slice', 'a--b.slice', 'a.scope', 'a', 'a/b.slice', '../a.slice'],
    ...['a b.slice', 'a\\b.slice', 'é.slice', `${'a'.repeat(255)}.slice`],
  ];
  for (const name of names)
    assert.throws(
      () => slicePath(name),
      (error) => isKind(error, 'InvalidArgument'),
      name,
    );
});

test('any text becomes one level', () => {
  assert.equal(sliceBelow('/gantry.slice', 'pod1-2-3'), '/gantry.slice/gantry-pod1_2_3.slice');
  assert.equal(sliceBelow('/a.slice/a-b.slice', 'c d/é'), '/a.slice/a-b.slice/a-b-c\\x20d\\x2f\\xc3\\xa9.slice');
  for (const name of ['pod1-2', 'x y', '..', 'é', '\\', 'a\nb']) {
    const below = sliceBelow('/g.slice', name);
    assert.equal(slicePath(unitOfCgroup(below) ?? ''), below, name);
  }
});

test('a path becomes a slice of as many levels', () => {
  const cases: [string, string][] = [
    ['/gantry', 'gantry.slice'],
    ['/gantry-abc123', 'gantry_abc123.slice'],
    ['/a/b-c', 'a-b_c.slice'],
  ];
  for (const [path, slice] of cases) assert.equal(sliceOfPath(path), slice);
});

test('which cgroups are units', () => {
  const cases: [string, string | undefined][] = [
    ['/gantry', undefined],
    ['/gantry/pod1', undefined],
    ['/a.slice/a-b.slice', 'a-b.slice'],
    ['/a.slice/x-1.scope', 'x-1.scope'],
    ['/a.slice/x-1.scope/exec-1', undefined],
  ];
  for (const [path, unit] of cases) assert.equal(unitOfCgroup(path), unit);
});

test('a container has a slice of its own and a scope in it', () => {
  const scope = containerScope('/g.slice/g-pod1.slice', 'gantry-x', ID);
  assert.equal(scope, `/g.slice/g-pod1.slice/g-pod1-${ID}.slice/gantry-x-${ID}.scope`);
  assert.equal(ociScope(scope), `g-pod1-${ID}.slice:gantry-x:${ID}`);
  assert.equal(wholeOfContainer(scope), `/g.slice/g-pod1.slice/g-pod1-${ID}.slice`);
  const others = [
    '/gantry/pod1',
    `/gantry/pod1/${ID}`,
    '/g.slice/g-daemon.scope',
    `/g.slice/g-pod1.slice/x-${ID}.scope`,
  ];
  for (const path of [...others, wholeOfContainer(scope)]) assert.equal(wholeOfContainer(path), path);
});
