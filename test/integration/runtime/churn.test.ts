import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { ExecRequest, NamespaceMode } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import { scaled } from '../../support/scale.ts';
import { eventually } from './daemon-process.ts';
import { ImageDaemon } from './image-daemon.ts';
import { container, op, pod } from './runtime-fixture.ts';
import { CommandClient } from './stream-client.ts';

const needsRoot = { skip: process.getuid?.() !== 0 && 'needs root' };
const EXECS = scaled({ small: 60, whole: 1_000 });
const PODS = scaled({ small: 6, whole: 200 });
/** With this the caches, the compiled code and the pools have what they keep. */
const WARM_UP = { execs: scaled({ small: 40, whole: 200 }), pods: scaled({ small: 4, whole: 20 }) };
const AT_ONCE = 4;
const MORE_MEMORY_BYTES = 10 * 1024 * 1024;

interface Held {
  readonly fds: number;
  readonly threads: number;
  /** What is in use on the heap and beside it, after a collection. */
  readonly memoryBytes: number;
}

async function held(daemon: ImageDaemon): Promise<Held> {
  const [fds, threads, memoryBytes] = await Promise.all([
    readdir(`/proc/${daemon.pid}/fd`),
    readdir(`/proc/${daemon.pid}/task`),
    daemon.usedMemoryBytes(),
  ]);
  return { fds: fds.length, threads: threads.length, memoryBytes };
}

async function times(count: number, once: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await once(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

await test(`${EXECS} execs and ${PODS} pods leave the daemon as it was`, needsRoot, async (t) => {
  await using daemon = await ImageDaemon.make();
  const onePod = async (name: string): Promise<void> => {
    const config = pod(daemon.root, name, { network: NamespaceMode.POD });
    const sandboxId = await daemon.runPod(config);
    const id = await daemon.run(sandboxId, config, container('a', ['sleep', '600']));
    assert.equal(await daemon.execSync(id, 'echo', name), `${name}\n`);
    await daemon.endPod(sandboxId);
  };
  await onePod('first');
  const leaks = await LeakCheck.begin(daemon.root.leakRoots());

  const config = pod(daemon.root, 'execs');
  const sandboxId = await daemon.runPod(config);
  const id = await daemon.run(sandboxId, config, container('a', ['sleep', '600']));
  /** Each kind in turn: by one call, with streams, with a terminal, and with a client that vanishes. */
  const oneExec = async (index: number): Promise<void> => {
    if (index % 4 === 0) {
      assert.equal(await daemon.execSync(id, 'echo', 'hello'), 'hello\n');
      return;
    }
    const [tty, vanishes] = [index % 4 === 2, index % 4 === 3];
    const cmd = vanishes ? ['sleep', '600'] : ['echo', 'hello'];
    const request = ExecRequest.fromPartial({ containerId: id, cmd, stdout: true, stdin: true, tty });
    const { url } = (await daemon.runtime.exec?.(op, request)) ?? { url: '' };
    const client = await CommandClient.open(url, { stdin: true, tty });
    if (vanishes) {
      client.vanish();
      return;
    }
    assert.match(await client.verdict(), /Success/);
    assert.match(client.out, /^hello\r?\n$/);
  };
  const churn = async (execs: number, pods: number, round: string): Promise<void> => {
    await times(execs, oneExec);
    await times(pods, (index) => onePod(`${round}${index}`));
    await eventually(
      () => daemon.execSync(id, 'ps', '-o', 'args'),
      (text) => text.split('\n').filter((line) => line === 'sleep 600').length === 1,
      'the end of what was executed',
    );
  };

  await churn(WARM_UP.execs, WARM_UP.pods, 'warm-up');
  const before = await held(daemon);
  await churn(EXECS, PODS, 'pod');
  const after = await eventually(
    () => held(daemon),
    ({ fds, threads }) => fds <= before.fds && threads <= before.threads,
    `no more than ${JSON.stringify(before)}`,
  );
  const more = after.memoryBytes - before.memoryBytes;
  t.diagnostic(`descriptors ${before.fds} -> ${after.fds}, threads ${before.threads} -> ${after.threads}`);
  t.diagnostic(`memory in use ${before.memoryBytes} -> ${after.memoryBytes} bytes`);
  assert.ok(more < MORE_MEMORY_BYTES, `${more} bytes more are in use`);
  await daemon.endPod(sandboxId);
  await leaks.assertNone();
});
