import assert from 'node:assert/strict';
import { access, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { ContainerState } from '../../../src/cri/gen/api.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { isKind } from '../../../src/lib/errors.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { eventually } from './daemon-process.ts';
import { container, op, pod, RuntimeFixture } from './runtime-fixture.ts';

const root = process.getuid?.() !== 0 && 'needs root';
const ROTATIONS = 20;
const BETWEEN_MS = 100;
let f: RuntimeFixture;
let leaks: LeakCheck;
let sandboxId: string;
const config = (): ReturnType<typeof pod> => pod(f.root, 'logs');
const logOf = (name: string): string => join(config().logDirectory, name, '0.log');

before(async () => {
  if (root !== false) return;
  f = await RuntimeFixture.make();
  leaks = await LeakCheck.begin(f.root.leakRoots());
  sandboxId = await f.runSandbox(config());
});

after(async () => {
  if (root !== false) return;
  try {
    await f.endPod(sandboxId);
    await rm(config().logDirectory, { recursive: true });
    await leaks.assertNone();
  } finally {
    await f[Symbol.asyncDispose]();
  }
});

const isThere = async (path: string): Promise<boolean> =>
  await access(path).then(
    () => true,
    () => false,
  );

interface ReadLog {
  /** What was written to each stream, put together again. */
  readonly text: { stdout: string; stderr: string };
  /** Files that end within a line of the container's. */
  readonly cutFiles: number;
}

/** CRI's format: time, stream, P (more of the line follows) or F, text. Anything else is a torn record. */
async function readLogs(files: readonly string[]): Promise<ReadLog> {
  const text = { stdout: '', stderr: '' };
  let cutFiles = 0;
  for (const file of files) {
    const content = await readFile(file, 'utf8');
    if (content === '') continue;
    assert.ok(content.endsWith('\n'), `${file} ends within a record`);
    let last = '';
    for (const record of content.slice(0, -1).split('\n')) {
      const match = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF]) (.*)$/.exec(record);
      assert.ok(match !== null, `${file}: ${JSON.stringify(record.slice(0, 200))}`);
      const [, stream = 'stdout', mark = '', piece = ''] = match;
      text[stream as 'stdout' | 'stderr'] += mark === 'F' ? `${piece}\n` : piece;
      last = mark;
    }
    if (last === 'P') cutFiles++;
  }
  return { text, cutFiles };
}

interface Writer {
  readonly title: string;
  /** Shell: some lines, the first of them with the number $i; leaves the next number there. */
  readonly round: string;
  readonly stdout: (n: number) => string;
  readonly stderr?: (n: number) => string;
}

const WRITERS: Readonly<Record<string, Writer>> = {
  counts: {
    title: '10,000 lines a second to each stream, each written by itself',
    round: `until
        echo "line $i of this container's output, as long as most lines are"; echo "error $i" >&2
        i=$((i+1)); [ $((i % 200)) -eq 0 ]
      do :; done; usleep 10000`,
    stdout: (n) => `line ${String(n)} of this container's output, as long as most lines are`,
    stderr: (n) => `error ${String(n)}`,
  },
  blocks: {
    title: 'blocks of lines, as fast as it can',
    round: 'seq $i $((i+9999)); i=$((i+10000)); usleep 50000',
    stdout: String,
  },
};

for (const [name, writer] of Object.entries(WRITERS)) {
  const title = `rotated 20 times under a container that writes ${writer.title}: every line is there once, whole and in order`;
  test(title, { skip: root }, async (t) => {
    const { round, stdout, stderr } = writer;
    // However fast it is: it writes until it has been rotated often enough.
    const script = `i=0; while [ ! -e /tmp/enough ]; do ${round}; done; echo $i > /tmp/lines; exec sleep 1000`;
    const startedMs = performance.now();
    const id = await f.runContainer(sandboxId, config(), container(name, ['sh', '-c', script]));
    const files: string[] = [];
    for (let n = 1; n <= ROTATIONS; n++) {
      await systemClock.sleep(BETWEEN_MS);
      const rotated = `${logOf(name)}.${String(n)}`;
      await rename(logOf(name), rotated);
      await f.cri.reopenContainerLog(op, { containerId: id });
      assert.ok(await isThere(logOf(name)), 'the new file is there when the call returns');
      files.push(rotated);
    }
    await f.exec(id, 'touch', '/tmp/enough');
    const lines = await eventually(
      async () => Number((await f.exec(id, 'cat', '/tmp/lines')).stdout),
      (number) => number > 0,
      'how many lines it has written',
    );
    const seconds = (performance.now() - startedMs) / 1000;
    await f.stop(id, 0);
    const { text, cutFiles } = await readLogs([...files, logOf(name)]);
    const all = (line: (n: number) => string): string =>
      Array.from({ length: lines }, (_, n) => `${line(n)}\n`).join('');
    // Not by equal(): what differs would be megabytes.
    assert.ok(text.stdout === all(stdout), 'stdout is whole');
    assert.ok(text.stderr === (stderr === undefined ? '' : all(stderr)), 'stderr is whole');
    const each = `${String(Math.round(lines / seconds))} lines/s to each stream`;
    t.diagnostic(`${each}, ${String(cutFiles)} of ${String(ROTATIONS)} files end within a line`);
  });
}

test('a container that does not run has no log to reopen, and none is made', { skip: root }, async () => {
  const created = await f.createContainer(sandboxId, config(), container('created', ['true']));
  const refused = (error: unknown): boolean => isKind(error, 'FailedPrecondition');
  await assert.rejects(f.cri.reopenContainerLog(op, { containerId: created }), refused);
  assert.equal(await isThere(logOf('created')), false);

  const ended = await f.runContainer(sandboxId, config(), container('ended', ['echo', 'done']));
  await f.waitFor(ended, (status) => status.state === ContainerState.CONTAINER_EXITED);
  await rename(logOf('ended'), `${logOf('ended')}.1`);
  await assert.rejects(f.cri.reopenContainerLog(op, { containerId: ended }), refused);
  assert.deepEqual(await readdir(dirname(logOf('ended'))), ['0.log.1']);

  await assert.rejects(f.cri.reopenContainerLog(op, { containerId: 'f'.repeat(64) }), (error) =>
    isKind(error, 'NotFound'),
  );
});

test('a log whose folder is gone is not reopened, and the container goes on', { skip: root }, async () => {
  const id = await f.runContainer(
    sandboxId,
    config(),
    container('homeless', ['sh', '-c', 'echo one; exec sleep 1000']),
  );
  await eventually(
    () => readFile(logOf('homeless'), 'utf8'),
    (text) => text !== '',
    'its line',
  );
  await rename(dirname(logOf('homeless')), `${dirname(logOf('homeless'))}.moved`);
  await assert.rejects(f.cri.reopenContainerLog(op, { containerId: id }), (error) => isKind(error, 'NotFound'));
  assert.equal(await isThere(dirname(logOf('homeless'))), false);
  assert.equal((await f.status(id)).state, ContainerState.CONTAINER_RUNNING);
  assert.equal((await f.exec(id, 'echo', 'there')).stdout, 'there\n');
  await f.stop(id, 0);
});
