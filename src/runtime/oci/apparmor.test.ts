import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { DEFAULT_APPARMOR_TEXT } from './apparmor-profile.ts';
import { AppArmor } from './apparmor.ts';

const op = { signal: new AbortController().signal, log: silentLog };
let dir: string;
let listPath: string;

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'gt-apparmor-'));
  listPath = join(dir, 'profiles');
});

after(async () => {
  await rm(dir, { recursive: true });
});

/** A parser that keeps what it is given, and does what the script says. */
async function parser(script: string): Promise<string> {
  const path = join(dir, 'parser');
  await writeFile(path, `#!/bin/sh\ncat > ${join(dir, 'given')}\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

test('our own profile is loaded when it is not there, and left out where that cannot be', async () => {
  await writeFile(listPath, 'other (enforce)\n');
  const works = await parser('exit 0');
  assert.equal(await new AppArmor({ enabled: true, parser: works, listPath }).defaultProfile(op), 'gantry-default');
  assert.equal(await readFile(join(dir, 'given'), 'utf8'), DEFAULT_APPARMOR_TEXT);
  assert.equal(await new AppArmor({ enabled: false, parser: works, listPath }).defaultProfile(op), undefined);
  assert.equal(await new AppArmor({ enabled: true, listPath }).defaultProfile(op), undefined);
  const fails = await parser('echo "Could not open: Permission denied" >&2; exit 2');
  await assert.rejects(new AppArmor({ enabled: true, parser: fails, listPath }).defaultProfile(op), {
    kind: 'FailedPrecondition',
    message: /gantry-default could not be loaded: Could not open: Permission denied/,
  });
  await writeFile(listPath, 'gantry-default (enforce)\n');
  assert.equal(await new AppArmor({ enabled: true, parser: fails, listPath }).defaultProfile(op), 'gantry-default');
});

test('a profile of the host must be loaded', async () => {
  await writeFile(listPath, 'strict (enforce)\n/usr/bin/a b (complain)\nstrict//child (enforce)\n');
  const on = new AppArmor({ enabled: true, listPath });
  await on.demand('strict');
  await on.demand('/usr/bin/a b');
  for (const name of ['stric', 'child', 'none']) {
    await assert.rejects(on.demand(name), { kind: 'FailedPrecondition', message: /is not loaded/ }, name);
  }
  await assert.rejects(new AppArmor({ enabled: false, listPath }).demand('strict'), /this host has no AppArmor/);
  await new AppArmor({ enabled: true, listPath: join(dir, 'none') }).demand('whatever');
});
