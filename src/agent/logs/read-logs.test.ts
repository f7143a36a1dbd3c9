import assert from 'node:assert/strict';
import { appendFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../lib/clock.ts';
import { silentLog } from '../../lib/log.ts';
import { parseCriLogLine } from './cri-log-line.ts';
import { readLogs, type ReadLogsOptions } from './read-logs.ts';

const op = { signal: new AbortController().signal, log: silentLog };

async function logFile(t: TestContext, text: string): Promise<string> {
  const directory = await mkdtemp(join(os.tmpdir(), 'gantry-logs-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, '0.log');
  await writeFile(path, text);
  return path;
}

async function read(path: string, options: ReadLogsOptions = {}): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of readLogs(op, path, options)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

const TIME = '2026-01-01T00:00:0';
const three = [
  `${TIME}1.000000000Z stdout F one\n`,
  `${TIME}2.000000000Z stderr P tw\n`,
  `${TIME}2.500000000Z stderr F o\n`,
  `${TIME}3.000000000Z stdout F three\n`,
].join('');

await test('lines, pieces of lines, times', async (t) => {
  const path = await logFile(t, three);
  assert.equal(await read(path), 'one\ntwo\nthree\n');
  assert.equal(
    await read(path, { timestamps: true }),
    `${TIME}1.000000000Z one\n${TIME}2.000000000Z two\n${TIME}3.000000000Z three\n`,
  );
  assert.equal(await read(path, { sinceWallMs: Date.parse(`${TIME}3Z`) }), 'three\n');
  assert.equal(await read(path, { limitBytes: 5 }), 'one\nt');
});

await test('the tail counts written lines, whatever they were cut into', async (t) => {
  const path = await logFile(t, three);
  const tails = await Promise.all([0, 1, 2, 3, 9].map((tailLines) => read(path, { tailLines })));
  assert.deepEqual(tails, ['', 'three\n', 'two\nthree\n', 'one\ntwo\nthree\n', 'one\ntwo\nthree\n']);
});

await test('the tail of a long log is its last lines', async (t) => {
  const all = Array.from({ length: 9_000 }, (_, index) => `line ${String(index)}`);
  const path = await logFile(t, all.map((line) => `${TIME}1Z stdout F ${line}\n`).join(''));
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 9_500 }), async (tailLines) => {
      assert.equal(
        await read(path, { tailLines }),
        all
          .slice(-tailLines)
          .map((line) => `${line}\n`)
          .join(''),
      );
    }),
    { numRuns: 20 },
  );
});

await test('what is no log line is left out, an unfinished last line is shown', async (t) => {
  const path = await logFile(t, `garbage\n${three}${TIME}4Z stdout P unfinish`);
  assert.equal(await read(path), 'one\ntwo\nthree\nunfinish');
});

await test('following sees what is written, also after a rotation, and ends with the container', async (t) => {
  const path = await logFile(t, three);
  // The clock's own timers keep no process alive.
  const alive = setInterval(() => undefined, 1_000);
  t.after(() => clearInterval(alive));
  let looks = 0;
  const goesOn = async (): Promise<boolean> => {
    looks += 1;
    if (looks === 1) await appendFile(path, `${TIME}4Z stdout F four\n`);
    if (looks === 2) {
      await rename(path, `${path}.1`);
      await writeFile(path, `${TIME}5Z stdout F five\n`);
    }
    if (looks === 3) await appendFile(path, `${TIME}6Z stdout F six\n`);
    return looks < 3;
  };
  assert.equal(await read(path, { tailLines: 1, follow: { clock: systemClock, goesOn } }), 'three\nfour\nfive\nsix\n');
});

await test('parsing never throws, whatever the bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      parseCriLogLine(Buffer.from(bytes));
    }),
  );
});
