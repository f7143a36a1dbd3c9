import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import type { NetworkConfig } from './network-config.ts';
import { giveBackStrays, mustBeFree } from './reservations.ts';

const OURS = 'a'.repeat(64);
const GONE = 'b'.repeat(64);

async function withFolder(
  files: Record<string, string>,
  fn: (dataDir: string, folder: string) => Promise<void>,
): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gantry-reservations-'));
  const folder = join(dataDir, 'net');
  try {
    await mkdir(folder);
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    await fn(dataDir, folder);
  } finally {
    await rm(dataDir, { recursive: true });
  }
}

function network(dataDir: string): NetworkConfig {
  return {
    name: 'net',
    cniVersion: '1.0.0',
    plugins: [{ type: 'bridge', ipam: { type: 'host-local', dataDir } }],
  };
}

const FILES = {
  lock: '',
  'last_reserved_ip.0': '10.9.0.5',
  '10.9.0.2': `${OURS}\r\neth0`,
  '10.9.0.3': `${GONE}\r\neth0`,
  '10.9.0.4': '',
  '10.9.0.5': '',
};

test('at a start: addresses of nobody, and those whose file a power cut has left empty', async () => {
  await withFolder(FILES, async (_dataDir, folder) => {
    await giveBackStrays(silentLog, folder, (id) => id === OURS);
    assert.deepEqual((await readdir(folder)).sort(), ['10.9.0.2', 'last_reserved_ip.0', 'lock']);
  });
});

test('after a DEL: an empty file of an address that was this one’s goes, others’ stay, whatever is in them', async () => {
  await withFolder(FILES, async (dataDir, folder) => {
    await mustBeFree(network(dataDir), ['10.9.0.4', '10.9.0.2', '10.9.0.99'], GONE);
    assert.deepEqual((await readdir(folder)).sort(), [
      '10.9.0.2',
      '10.9.0.3',
      '10.9.0.5',
      'last_reserved_ip.0',
      'lock',
    ]);
  });
});
