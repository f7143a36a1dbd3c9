import assert from 'node:assert/strict';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const root = new URL('../../', import.meta.url).pathname;
const MAP = 'docs/behaviour.md';

interface Row {
  readonly key: string;
  readonly behaviour: string;
  readonly where: string;
  readonly provedBy: string;
}

async function rows(): Promise<Row[]> {
  const text = await readFile(join(root, MAP), 'utf8');
  return text.split('\n').flatMap((line) => {
    if (!line.startsWith('| `')) return [];
    const [key = '', behaviour = '', where = '', provedBy = '', ...more] = line.split(' | ');
    assert.deepEqual(more, [], line);
    return [{ key: key.replaceAll(/[|`\s]+/g, ' ').trim(), behaviour, where, provedBy }];
  });
}

const pathsIn = (cell: string): string[] =>
  [...cell.matchAll(/`([^`\s]+\/[^`\s]+|[a-z]+\.config\.js)`/g)].map(([, path = '']) => path);

/** `file`: “title”, “title”; `file`: “title” */
function titlesIn(cell: string): [file: string, title: string][] {
  const found: [string, string][] = [];
  let file = '';
  for (const [, path, title] of cell.matchAll(/`([^`]+\.test\.ts)`|“([^”]+)”/g)) {
    if (path !== undefined) file = path;
    else found.push([file, title ?? '']);
  }
  return found;
}

test('every file that the map of behaviour names is there', async () => {
  for (const { key, where, provedBy } of await rows()) {
    for (const path of [...pathsIn(where), ...pathsIn(provedBy)]) {
      await assert.doesNotReject(access(join(root, path)), `${key}: ${path}`);
    }
  }
});

test('every test that it names is in the file that it names', async () => {
  const titles = (await rows()).flatMap(({ key, provedBy }) =>
    titlesIn(provedBy).map((found) => [key, ...found] as const),
  );
  assert.ok(titles.length > 100, 'the table is read');
  for (const [key, file, title] of titles) {
    const text = (await readFile(join(root, file), 'utf8')).replaceAll("\\'", "'");
    assert.ok(text.includes(title), `${key}: ${file} has no test “${title}”`);
  }
});

test('every decision that it names is there', async () => {
  const text = await readFile(join(root, MAP), 'utf8');
  for (const [, path = ''] of text.matchAll(/\]\(([^)]+)\)/g)) {
    await assert.doesNotReject(access(join(root, dirname(MAP), path)), path);
  }
});

test('each item is there once, proved or marked as open', async () => {
  const all = await rows();
  const keys = all.map(({ key }) => key);
  assert.deepEqual(
    keys.filter((key, index) => keys.indexOf(key) !== index),
    [],
  );
  const numbered = (letter: string, first: number, last: number): string[] =>
    Array.from({ length: last - first + 1 }, (_, index) => `${letter}${String(first + index)}`);
  const expected = [
    ...numbered('C', 1, 14),
    ...numbered('E', 21, 27),
    ...numbered('F', 28, 33),
    ...numbered('G', 34, 38),
    ...numbered('H', 39, 40),
    ...numbered('I', 41, 47),
    ...numbered('J', 48, 52),
    ...numbered('K', 53, 57),
    ...numbered('L', 58, 71),
    ...numbered('N', 82, 91),
    ...numbered('T', 1, 19),
    ...numbered('row ', 1, 25),
    ...numbered('row ', 27, 29),
    ...numbered('row ', 31, 42),
    ...['RunPodSandbox', 'StopPodSandbox', 'RemovePodSandbox', 'PullImage', 'RemoveImage'].map((rpc) => `late ${rpc}`),
    ...['Create', 'Start', 'Stop', 'Remove'].map((verb) => `late ${verb}Container`),
  ];
  assert.deepEqual(new Set(keys), new Set(expected));
  const open = all.filter(({ provedBy }) => titlesIn(provedBy).length === 0);
  for (const { key, provedBy } of open) assert.match(provedBy, /not yet|fault table|type check/i, key);
});
