import assert from 'node:assert/strict';
import { access, mkdir, mkdtemp, readdir, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isKind, messageOf } from '../lib/errors.ts';
import { Claims } from './claims.ts';
import { resolveConfig, type GantryConfig, type PartialConfig } from './config.ts';

const BOOT = 'boot-1';

async function setUp(): Promise<{
  dir: string;
  folder: string;
  take: (name: string, given?: PartialConfig, bootId?: string) => Promise<Claims>;
}> {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-claims-'));
  const folder = join(dir, 'claims');
  const take = async (name: string, given: PartialConfig = {}, bootId = BOOT): Promise<Claims> => {
    const config: GantryConfig = resolveConfig({ root: join(dir, name), ...given }, 'box');
    for (const path of [config.root, config.state, config.podsDir]) await mkdir(path, { recursive: true });
    return await Claims.take(config, bootId, folder);
  };
  return { dir, folder, take };
}

async function refusal(taking: Promise<Claims>): Promise<string> {
  const error: unknown = await taking.then(
    () => assert.fail('it was taken'),
    (reason: unknown) => reason,
  );
  assert.ok(isKind(error, 'FailedPrecondition'), messageOf(error));
  return messageOf(error);
}

test('two with nothing in common live side by side, and nothing of them is left in the end', async () => {
  const { take, folder } = await setUp();
  const [one, two] = [await take('one'), await take('two')];
  await one.release(true);
  await two.release(true);
  await assert.rejects(access(folder));
});

test('what something is left of stays its own, and only until the next boot where it does not outlive that', async () => {
  const { take, dir } = await setUp();
  const podsDir = join(dir, 'shared-pods');
  const own = { instance: 'x', cgroupParent: '/x', state: join(dir, 'state'), podsDir };
  await (await take('one', own)).release(false);
  await (await take('one', own)).release(false);
  for (const [key, value] of Object.entries(own)) {
    assert.match(
      await refusal(take('two', { [key]: value })),
      / belongs to the Gantry of --root .*\/one: give this one /,
    );
  }
  const { instance, cgroupParent, state } = own;
  await (await take('two', { instance, cgroupParent, state }, 'boot-2')).release(true);
  assert.match(await refusal(take('two', { podsDir }, 'boot-2')), /^--pods-dir: /);
  await (await take('one', own)).release(true);
  await (await take('two', own)).release(true);
});

test('one that is refused has claimed nothing', async () => {
  const { take, dir, folder } = await setUp();
  const one = await take('one', { cgroupParent: '/x' });
  await refusal(take('two', { cgroupParent: '/x' }));
  assert.equal((await readdir(folder)).length, 2);
  await assert.rejects(access(join(dir, 'two', '.gantryd.lock')));
  await (await take('two')).release(true);
  await one.release(true);
});

test('a root that was moved has its own folders in it still', async () => {
  const { take, dir } = await setUp();
  await (await take('one', { instance: 'x' })).release(false);
  await rename(join(dir, 'one'), join(dir, 'moved'));
  const words = await refusal(take('moved', { instance: 'x' }));
  const [, file = ''] = /remove (\S+)$/.exec(words) ?? [];
  assert.equal(file, join(dir, 'claims', 'instance-x'));
  await (await take('moved', { instance: 'x' }, 'boot-2')).release(true);
});

test('what was made under one instance id is not left to another one', async () => {
  const { take } = await setUp();
  await (await take('one', { instance: 'x' })).release(false);
  const words = await refusal(take('one', { instance: 'y' }, 'boot-2'));
  assert.match(words, /^--instance: .*\/one was made under the id x, not y: give --instance x/);
  await (await take('one', { instance: 'x' })).release(true);
  await (await take('one', { instance: 'y' })).release(true);
});

test('the root of one is nothing to another', async () => {
  const { take, dir } = await setUp();
  await (await take('one')).release(true);
  assert.match(await refusal(take('two', { state: join(dir, 'one') })), /^--state: .*\/one belongs to /);
});
