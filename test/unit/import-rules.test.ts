import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Each import rule is proved by a planted violation: a small tree of rooms in which every forbidden arrow is drawn once, and
 * every allowed one too.
 */

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const ROOMS = ['lib', 'linux', 'cri', 'journal', 'runtime', 'kube', 'agent', 'cli'];
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  linux: ['lib'],
  cri: ['lib'],
  journal: ['lib'],
  runtime: ['lib', 'linux', 'cri', 'journal'],
  kube: ['lib', 'journal'],
  agent: ['lib', 'linux', 'cri', 'kube', 'journal'],
  cli: ['lib', 'cri', 'kube', 'journal'],
};
const LEAVES = ['image', 'snapshot', 'network', 'oci', 'stats', 'streaming'];

interface Violation {
  readonly rule: { readonly name: string };
  readonly from: string;
  readonly to: string;
}

let violations: readonly Violation[] = [];

async function plant(tree: string, file: string, imports: readonly string[]): Promise<void> {
  const path = join(tree, file);
  await mkdir(dirname(path), { recursive: true });
  const lines = imports.map((target, i) => {
    const specifier = target.startsWith('@') ? target : `./${relative(dirname(file), target)}`;
    return `import type { T as T${i} } from '${specifier}';\nexport type U${i} = T${i};`;
  });
  await writeFile(path, `${lines.join('\n')}\nexport type T = string;\n`);
}

before(async () => {
  const tree = await mkdtemp(join(tmpdir(), 'gantry-rules-'));
  await cp(join(root, '.dependency-cruiser.cjs'), join(tree, '.dependency-cruiser.cjs'));
  await cp(join(root, 'tsconfig.json'), join(tree, 'tsconfig.json'));
  await symlink(join(root, 'node_modules'), join(tree, 'node_modules'));
  for (const room of ROOMS) {
    await plant(tree, `src/${room}/end.ts`, []);
    for (const other of ROOMS) {
      if (other !== room) await plant(tree, `src/${room}/uses-${other}.ts`, [`src/${other}/end.ts`]);
    }
  }
  for (const leaf of LEAVES) {
    await plant(tree, `src/runtime/${leaf}/end.ts`, []);
    for (const other of LEAVES) {
      if (other !== leaf) await plant(tree, `src/runtime/${leaf}/uses-${other}.ts`, [`src/runtime/${other}/end.ts`]);
    }
  }
  await plant(
    tree,
    'src/runtime/main.ts',
    LEAVES.map((leaf) => `src/runtime/${leaf}/end.ts`),
  );
  await plant(tree, 'src/kube/one.ts', ['src/kube/two.ts']);
  await plant(tree, 'src/kube/two.ts', ['src/kube/one.ts']);
  await plant(tree, 'src/linux/fake-thing.ts', []);
  await plant(tree, 'src/linux/uses-fake.ts', ['src/linux/fake-thing.ts']);
  await plant(tree, 'src/linux/thing.test.ts', ['src/linux/fake-thing.ts']);
  await plant(tree, 'src/linux/uses-test.ts', ['src/linux/thing.test.ts']);
  await plant(tree, 'test/support/end.ts', []);
  await plant(tree, 'src/linux/uses-support.ts', ['test/support/end.ts']);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs'), '--output-type', 'json', 'src', 'test'],
    { cwd: tree, maxBuffer: 1 << 26 },
  ).catch((error: unknown) => error as { stdout: string });
  violations = (JSON.parse(stdout) as { summary: { violations: Violation[] } }).summary.violations;
});

function rulesOf(from: string, to: string): string[] {
  return violations.filter((v) => v.from === from && v.to === to).map((v) => v.rule.name);
}

for (const room of ROOMS) {
  for (const other of ROOMS) {
    if (other === room) continue;
    const allowed = ALLOWED[room]?.includes(other) === true;
    test(`${room} ${allowed ? 'may' : 'must not'} import ${other}`, () => {
      const found = rulesOf(`src/${room}/uses-${other}.ts`, `src/${other}/end.ts`);
      assert.deepEqual(found, allowed ? [] : [`${room}-imports`]);
    });
  }
}

test('leaves of runtime must not import one another, main.ts may', () => {
  for (const leaf of LEAVES) {
    for (const other of LEAVES) {
      if (other === leaf) continue;
      const found = rulesOf(`src/runtime/${leaf}/uses-${other}.ts`, `src/runtime/${other}/end.ts`);
      assert.deepEqual(found, [`runtime-leaf-${leaf}`], `${leaf} -> ${other}`);
    }
    assert.deepEqual(rulesOf('src/runtime/main.ts', `src/runtime/${leaf}/end.ts`), []);
  }
});

test('circles are found', () => {
  assert.deepEqual(rulesOf('src/kube/one.ts', 'src/kube/two.ts'), ['no-circular']);
});

test('sources use neither fakes nor tests nor what belongs to tests; a test may use a fake', () => {
  assert.deepEqual(rulesOf('src/linux/uses-fake.ts', 'src/linux/fake-thing.ts'), ['no-test-in-source']);
  assert.deepEqual(rulesOf('src/linux/uses-test.ts', 'src/linux/thing.test.ts'), ['no-test-in-source']);
  assert.deepEqual(rulesOf('src/linux/uses-support.ts', 'test/support/end.ts'), ['no-test-support-in-source']);
  assert.deepEqual(rulesOf('src/linux/thing.test.ts', 'src/linux/fake-thing.ts'), []);
});
