import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { ID, oneContainer, SANDBOX, type OneContainer } from '../fake-one-container.ts';
import { stopSandbox } from '../sandbox/stop-sandbox.ts';
import { newSandboxStatus } from '../sandbox/state.ts';
import { removeContainerById } from './remove-container.ts';
import { stopContainer } from './stop-container.ts';

const STARTING = 'e'.repeat(64);

/** An end that may abort what makes the object, so that it need not wait for that. */
interface End {
  readonly what: string;
  /** How far the container has come. */
  readonly steps: number;
  readonly id: string;
  readonly aborts: string;
  readonly ask: (one: OneContainer) => Promise<unknown>;
}

const ENDS: readonly End[] = [
  {
    what: 'StopContainer',
    steps: 4,
    id: ID,
    aborts: 'start the container',
    ask: ({ rt }) =>
      stopContainer({ signal: new AbortController().signal, log: silentLog }, rt, { containerId: ID, timeout: 0n }),
  },
  {
    what: 'RemoveContainer',
    steps: 0,
    id: ID,
    aborts: 'create the container',
    ask: ({ rt }) => removeContainerById(rt, ID, 'test'),
  },
  {
    what: 'StopPodSandbox',
    steps: 0,
    id: STARTING,
    aborts: 'run the sandbox',
    ask: async ({ rt }) => {
      const { meta } = rt.sandboxes.must(SANDBOX);
      await rt.sandboxes.insert({ ...meta, id: STARTING }, newSandboxStatus(1, rt.bootId));
      await stopSandbox(rt, STARTING);
    },
  },
];

test('a sandbox that is undone while its stop is asked for has been stopped', async () => {
  const { rt, clock, holdDisk } = await oneContainer(0);
  const { meta } = rt.sandboxes.must(SANDBOX);
  await rt.sandboxes.insert({ ...meta, id: STARTING }, newSandboxStatus(1, rt.bootId));
  const goOn = holdDisk();
  const undone = rt.sandboxes.remove(STARTING);
  const stopped = stopSandbox(rt, STARTING);
  goOn();
  await clock.advance(1_000);
  await Promise.all([undone, stopped]);
  assert.equal(rt.retries.viewOf(STARTING), undefined);
});

for (const { what, steps, id, aborts, ask } of ENDS) {
  test(`${what} aborts the making that runs, and nothing else that has its turn by then`, async () => {
    const cleanups = ['recover', 'roll back', 'clean up after the exit', 'release the sandbox'];
    for (const step of [aborts, ...cleanups]) {
      const one = await oneContainer(steps);
      const aborted = Promise.withResolvers<boolean>();
      const running = one.rt.lanes.enqueue(id, {
        name: step,
        timeoutMs: 60_000,
        run: async ({ signal }) => {
          signal.addEventListener('abort', () => aborted.resolve(true));
          one.clock.after(1_000, () => aborted.resolve(false));
          await aborted.promise;
        },
      });
      const asked = Promise.allSettled([running, ask(one)]);
      await one.clock.advance(1_000);
      assert.equal(await aborted.promise, step === aborts, step);
      // The container never ends here: its caller is told so at last.
      await one.clock.advance(60_000);
      await asked;
    }
  });
}
