import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { readNamedFile } from './read-named-file.ts';

test('only a regular file of a bearable size is read, through links too', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-named-'));
  try {
    const file = join(folder, 'file');
    await writeFile(file, '12345678');
    await symlink('file', join(folder, 'link'));
    for (const name of ['file', 'link']) assert.equal(await readNamedFile(join(folder, name), 8), '12345678');
    const refused = (path: string, words: RegExp, maxBytes = 8): Promise<void> =>
      assert.rejects(
        readNamedFile(path, maxBytes),
        (error) => isKind(error, 'InvalidArgument') && words.test(String(error)),
      );
    await refused(file, /file: has more than 7 bytes/, 7);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    await refused(join(folder, 'pipe'), /pipe: is no regular file/);
    await refused(folder, /is no regular file/);
    await refused('/dev/null', /is no regular file/);
    await writeFile(join(folder, 'sparse'), '');
    await truncate(join(folder, 'sparse'), 2 ** 40);
    await refused(join(folder, 'sparse'), /has more than 8 bytes/);
    // Its size is said to be nothing.
    await refused('/proc/self/mountinfo', /has more than 8 bytes/);
    await assert.rejects(readNamedFile(join(folder, 'none'), 8), (error) => isKind(error, 'NotFound'));
  } finally {
    await rm(folder, { recursive: true });
  }
});
