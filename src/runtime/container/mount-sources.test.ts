import assert from 'node:assert/strict';
import { mkdtemp, readlink, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ContainerConfig } from '../../cri/gen/api.ts';
import type { Op } from '../../lib/abort.ts';
import { silentLog } from '../../lib/log.ts';
import { makeFolder, realPath } from '../../linux/file-look.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import { RuntimePaths } from '../store/paths.ts';
import { mountSources } from './mount-sources.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const deps = {
  paths: new RuntimePaths('/root', '/state'),
  hostFiles: {
    realpath: (_: Op, path: string) => realPath(path),
    mkdir: (_: Op, path: string, mode: number) => makeFolder(path, mode),
  },
};

test('a missing folder is made; a link that leads to nothing is told of and stays', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-sources-'));
  const sources = (hostPath: string): Promise<string[]> => {
    const config = ContainerConfig.fromPartial({ mounts: [{ hostPath, containerPath: '/m' }] });
    return mountSources(op, deps, { config } as unknown as ContainerMeta);
  };
  try {
    assert.deepEqual(await sources(join(folder, 'new/deep')), [join(folder, 'new/deep')]);
    await symlink('nowhere', join(folder, 'link'));
    for (const path of ['link', 'link/below']) {
      const message = /host_path .*\/link.*: a link there leads to nothing/;
      await assert.rejects(sources(join(folder, path)), { kind: 'FailedPrecondition', message });
    }
    assert.equal(await readlink(join(folder, 'link')), 'nowhere');
  } finally {
    await rm(folder, { recursive: true });
  }
});
