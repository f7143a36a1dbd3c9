import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import type { Op } from '../../lib/abort.ts';
import { silentLog } from '../../lib/log.ts';
import { errnoError } from '../../linux/errno.ts';
import type { FileEnd } from '../../linux/hang-safe.ts';
import { LogLooks, logLossOf } from './log-looks.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const MIB = 1 << 20;
const end = (text: string): readonly number[] => [...Buffer.from(text)];

test('what a log’s end says of what is not in it', () => {
  const whole: FileEnd = { isFile: true, lastBytes: end('\n'), freeBytes: MIB };
  assert.equal(logLossOf(whole), undefined);
  assert.equal(logLossOf({ ...whole, lastBytes: [] }), undefined);
  assert.equal(logLossOf({ ...whole, lastBytes: end('x') }), 'its last line is cut');
  for (const freeBytes of [0, 4_096]) assert.equal(logLossOf({ ...whole, freeBytes }), 'its file system is full');
  assert.equal(logLossOf({ isFile: false, lastBytes: [], freeBytes: 0 }), undefined);
});

test('a log that nobody has any more has lost nothing by itself; a disk that fails is told; who gives no answer is not', async () => {
  const saying = (errno: string): Promise<string | undefined> =>
    new LogLooks(new FakeClock(), { fileEnd: () => Promise.reject(errnoError(errno, 'read')) }).lossIn(op, '/l');
  assert.equal(await saying('ENOENT'), undefined);
  assert.equal(await saying('EIO'), 'its file system fails (EIO)');
  await assert.rejects(saying('EMFILE'), { kind: 'ResourceExhausted' });
});

test('disks that hang keep two looks at the most', async () => {
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  const looks = new LogLooks(new FakeClock(), {
    fileEnd: async (_op, path) => {
      asked.push(path);
      await new Promise<void>((resolve) => answers.push(resolve));
      return { isFile: true, lastBytes: [], freeBytes: MIB };
    },
  });
  const all = ['/1', '/2', '/3'].map((path) => looks.lossIn(op, path));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(asked, ['/1', '/2']);
  answers[0]?.();
  await all[0];
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(asked, ['/1', '/2', '/3']);
  for (const answer of answers) answer();
  assert.deepEqual(await Promise.all(all), [undefined, undefined, undefined]);
});
