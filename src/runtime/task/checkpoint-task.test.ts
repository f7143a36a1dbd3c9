import assert from 'node:assert/strict';
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

test('a host without CRIU is told so, as something that is not there', async () => {
  const op = { signal: new AbortController().signal, log: silentLog };
  const folders = { imageDir: '/none', workDir: '/none' };
  await assert.rejects(
    checkpointTask(op, FAKE_TASK, folders, () => Promise.resolve(undefined)),
    {
      kind: 'NotImplemented',
      message: /this host has no program "criu"/,
    },
  );
});
