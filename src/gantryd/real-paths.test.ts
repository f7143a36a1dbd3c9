import assert from 'node:assert/strict';
import { mkdir, mkdtemp, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { resolveConfig, type GantryConfig, type PartialConfig } from './config.ts';
import { withRealFolders, withRealRoot } from './real-paths.ts';

async function configOf(given: PartialConfig): Promise<GantryConfig> {
  return await withRealFolders(resolveConfig(await withRealRoot(given), 'box'));
}

test('one root folder is one Gantry, however it is spelled and whether it is there yet', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-real-'));
  await mkdir(join(dir, 'disk'));
  await symlink(join(dir, 'disk'), join(dir, 'link'));
  const spelled = (name: string): string[] => [
    `${dir}/disk${name}`,
    `${dir}/link${name}`,
    `${dir}/./disk/.${name}/`,
    `${dir}//disk${name}/.`,
    `${dir}/link/../disk${name}`,
  ];
  for (const name of ['/there', '/not/there', '']) {
    if (name === '/there') await mkdir(join(dir, 'disk/there'));
    const [first, ...others] = await Promise.all(spelled(name).map((root) => configOf({ root })));
    assert.equal(first?.root, `${dir}/disk${name}`);
    for (const other of others) assert.deepEqual(other, first);
  }
});

test('the default folder is the default one by any name', async () => {
  const config = await configOf({});
  for (const root of ['/var/lib/gantry', '/var/lib/./gantry/', '/var/lib/../lib/gantry'])
    assert.deepEqual(await configOf({ root }), config);
  assert.equal(config.instance, resolveConfig({}, 'box').instance);
});

test('state and volumes have the names that mounts in them have', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-real-'));
  await symlink(dir, `${dir}/link`);
  const config = await configOf({ state: `${dir}/link/state`, podsDir: `${dir}/link/pods` });
  assert.equal(config.state, join(dir, 'state'));
  assert.equal(config.podsDir, join(dir, 'pods'));
});

test('what is no path is left to the check that names the flag', async () => {
  for (const given of [{}, { root: '' }, { root: 'relative' }]) assert.deepEqual(await withRealRoot(given), given);
});
