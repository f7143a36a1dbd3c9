import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { checkpointTask, errorsIn } from './checkpoint-task.ts';
import { FAKE_TASK } from './fake-task.ts';

test('what CRIU complains of is found in its log: the first words, without time and place', () => {
  const log = [
    '(00.000001) Version: 4.2 (gitid 0)',
    '(00.010000) Warn  (criu/kerndat.c:1290): Cannot keep a cache',
    '(00.120000) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using the option',
    'Error (criu/tty.c:1): second',
    '(00.130000) Error (criu/cr-dump.c:2098): Dumping FAILED.',
    '(00.140000) Error (criu/x.c:1): a fourth is too many',
  ].join('\n');
  assert.equal(errorsIn(log), 'inet: Connected TCP socket, consider using the option; second; Dumping FAILED.');
  assert.equal(errorsIn(''), '');
});

const op = { signal: new AbortController().signal, log: silentLog };
const folders = { imageDir: '/none', workDir: '/none' };

test('a host without CRIU is told so, as something that is not there', async () => {
  await assert.rejects(
    checkpointTask(op, FAKE_TASK, folders, () => Promise.resolve(undefined)),
    {
      kind: 'NotImplemented',
      message: /this host has no program "criu"/,
    },
  );
});

test('so is a host without the library of CRIU that crun works with, by the name of what is missing', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'gantry-checkpoint-'));
  t.after(() => rm(dir, { recursive: true }));
  const path = join(dir, 'crun');
  const script = [
    '#!/bin/sh',
    `case "$*" in *state*) echo '{"status":"running"}'; exit ;; esac`,
    "echo 'could not load `libcriu.so.2`' >&2; exit 1",
  ];
  await writeFile(path, script.join('\n'), { mode: 0o755 });
  const task = { ...FAKE_TASK, runtime: { ...FAKE_TASK.runtime, path } };
  await assert.rejects(
    checkpointTask(op, task, folders, () => Promise.resolve('/usr/sbin/criu')),
    { kind: 'NotImplemented', message: /crun has CRIU by a library.*libcriu\.so\.2/ },
  );
});
