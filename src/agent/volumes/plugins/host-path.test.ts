import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLog } from '../../../lib/log.ts';
import { makeFile, makeFolder, pathStat } from '../../../linux/file-look.ts';
import { testPod } from '../../pods/test-pod.ts';
import { hostPathPlugin, type HostCalls } from './host-path.ts';

const op = { signal: new AbortController().signal, log: silentLog };

const host: HostCalls = {
  stat: (_op, path) => pathStat(path),
  mkdir: (_op, path, mode) => makeFolder(path, mode),
  makeFile: (_op, path, mode) => makeFile(path, mode),
};

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'host-path-'));
});
after(async () => {
  await rm(dir, { recursive: true });
});

async function setUp(path: string, type?: string): Promise<string> {
  const hostPath = { path, ...(type === undefined ? {} : { type }) };
  const request = { pod: testPod(), volume: { name: 'v', hostPath }, directory: '', metaDirectory: '' };
  return await hostPathPlugin(host).setUp(op, request);
}

test('FileOrCreate makes an empty file, and leaves one that is there alone', async () => {
  const path = join(dir, 'made');
  assert.equal(await setUp(path, 'FileOrCreate'), path);
  assert.equal((await stat(path)).size, 0);
  await writeFile(path, 'mine');
  await setUp(path, 'FileOrCreate');
  assert.equal(await readFile(path, 'utf8'), 'mine');
});

test('FileOrCreate makes no folders, and says which one is missing', async () => {
  const folder = join(dir, 'no-such-folder');
  await assert.rejects(setUp(join(folder, 'file'), 'FileOrCreate'), {
    kind: 'FailedPrecondition',
    message: `hostPath type FileOrCreate: ${folder}/file cannot be made: there is no folder ${folder}`,
  });
  await assert.rejects(stat(folder), { code: 'ENOENT' });
});

test('DirectoryOrCreate makes all of the path', async () => {
  const path = join(dir, 'a/b/c');
  await setUp(path, 'DirectoryOrCreate');
  assert.ok((await stat(path)).isDirectory());
});

test('DirectoryOrCreate where no folder can be made fails, and does not try for ever', async () => {
  await assert.rejects(setUp('/proc/no-such-folder/below', 'DirectoryOrCreate'), {
    kind: 'FailedPrecondition',
    message:
      /^hostPath type DirectoryOrCreate: \/proc\/no-such-folder\/below cannot be made: .*no such file or directory/,
  });
});

test('what is there must be of the type; without a type nothing is looked at', async () => {
  await assert.rejects(setUp(dir, 'FileOrCreate'), /is not a file$/);
  await assert.rejects(setUp(join(dir, 'nothing'), 'File'), /is not a file: it does not exist$/);
  assert.equal(await setUp(join(dir, 'nothing'), ''), join(dir, 'nothing'));
  assert.equal(await setUp(join(dir, 'nothing')), join(dir, 'nothing'));
});
