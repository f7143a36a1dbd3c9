import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PodSpec } from '../../kube/objects.ts';
import type {
  PodRuntimeState,
  RuntimeContainer,
  RuntimeContainerState,
  RuntimeSandbox,
} from '../pleg/pod-runtime-state.ts';
import { testPod } from '../pods/test-pod.ts';
import { computePodActions, type FailedStart, type PodActions } from './compute-pod-actions.ts';
import { containerHash } from './container-hash.ts';

const two: Partial<PodSpec> = {
  containers: [
    { name: 'a', image: 'i' },
    { name: 'b', image: 'i' },
  ],
};

function sandbox(attempt: number, ready = true): RuntimeSandbox {
  return { id: `s${String(attempt)}`, attempt, ready, createdAtMs: attempt, ips: ready ? ['10.0.0.2'] : [] };
}

function container(name: string, state: RuntimeContainerState, more: Partial<RuntimeContainer> = {}): RuntimeContainer {
  const attempt = more.attempt ?? 0;
  return {
    id: `${name}${String(attempt)}`,
    name,
    sandboxId: 's0',
    attempt,
    image: 'i',
    imageId: 'sha256:1',
    mounts: [],
    hash: containerHash({ name, image: 'i' }),
    crashes: 0,
    bootId: 'this-boot',
    createdAtMs: attempt,
    state,
    ...more,
  };
}

const running: RuntimeContainerState = { kind: 'running', startedAtMs: 1000 };
function exited(exitCode: number, ranMs = 1000): RuntimeContainerState {
  return {
    kind: 'exited',
    exitCode,
    reason: exitCode === 0 ? 'Completed' : 'Error',
    message: '',
    startedAtMs: 1000,
    finishedAtMs: 1000 + ranMs,
  };
}

function plan(
  spec: Partial<PodSpec>,
  sandboxes: RuntimeSandbox[],
  containers: RuntimeContainer[],
  more: {
    failed?: Record<string, FailedStart>;
    ages?: Record<string, number>;
    phase?: string;
    stopped?: string[];
  } = {},
): PodActions {
  const pod = testPod(spec);
  const object = { ...pod.object, ...(more.phase === undefined ? {} : { status: { phase: more.phase } }) };
  return computePodActions({
    pod: { ...pod, object },
    state: { uid: pod.uid, sandboxes, containers },
    bootId: 'this-boot',
    stopped: new Set(more.stopped),
    failedStarts: new Map(Object.entries(more.failed ?? {})),
    exitAgesMs: new Map(Object.entries(more.ages ?? {})),
  });
}

function brief(actions: PodActions): string[] {
  return [
    ...(actions.outcome === undefined ? [] : [`outcome ${actions.outcome}`]),
    ...actions.kill.map((kill) => `kill ${kill.id}`),
    ...actions.stopSandboxes.map(({ id }) => `stop ${id}`),
    ...(actions.createSandbox === undefined ? [] : [`sandbox ${String(actions.createSandbox.attempt)}`]),
    ...actions.start.map((start) =>
      start.createdId === undefined
        ? `start ${start.container.name}/${String(start.attempt)}`
        : `resume ${start.createdId}`,
    ),
    ...actions.waiting.map((wait) => `wait ${wait.name} ${wait.reason} ${String(wait.retryInMs)}`),
    ...actions.removeContainers.map((id) => `rm ${id}`),
    ...actions.removeSandboxes.map((id) => `rmp ${id}`),
  ];
}

await test('the table', () => {
  const rows: [string, PodActions, string[]][] = [
    ['nothing yet: sandbox first', plan(two, [], []), ['sandbox 0']],
    ['sandbox there: containers in order', plan(two, [sandbox(0)], []), ['start a/0', 'start b/0']],
    ['all runs: nothing', plan(two, [sandbox(0)], [container('a', running), container('b', running)]), []],
    ['no address: again', plan(two, [{ ...sandbox(0), ips: [] }], []), ['stop s0', 'sandbox 1']],
    [
      'host network needs none',
      plan({ ...two, hostNetwork: true }, [{ ...sandbox(0), ips: [] }], []),
      ['start a/0', 'start b/0'],
    ],
    [
      'first crash: at once',
      plan({}, [sandbox(0)], [container('main', exited(1), { hash: hashOfMain() })]),
      ['start main/1'],
    ],
    [
      'second crash: 10 s',
      plan({}, [sandbox(0)], [container('main', exited(1), { attempt: 1, crashes: 1, hash: hashOfMain() })]),
      ['wait main CrashLoopBackOff 10000'],
    ],
    [
      'crashes of an earlier boot: at once',
      plan(
        {},
        [sandbox(0)],
        [container('main', exited(1), { attempt: 5, crashes: 5, bootId: 'earlier-boot', hash: hashOfMain() })],
      ),
      ['start main/6'],
    ],
    [
      'made by a version that noted no boot: 10 s',
      plan(
        {},
        [sandbox(0)],
        [container('main', exited(1), { attempt: 1, crashes: 1, bootId: '', hash: hashOfMain() })],
      ),
      ['wait main CrashLoopBackOff 10000'],
    ],
    [
      'third crash, 15 s ago',
      plan({}, [sandbox(0)], [container('main', exited(1), { attempt: 2, crashes: 2 })], { ages: { main2: 15_000 } }),
      ['wait main CrashLoopBackOff 5000'],
    ],
    [
      'ten good minutes: back-off forgotten',
      plan({}, [sandbox(0)], [container('main', exited(1, 600_000), { attempt: 9, crashes: 9 })]),
      ['start main/10'],
    ],
    [
      'OnFailure and success',
      plan({ restartPolicy: 'OnFailure' }, [sandbox(0)], [container('main', exited(0))]),
      ['outcome Succeeded'],
    ],
    [
      'OnFailure and an exit that nobody learnt',
      plan({ restartPolicy: 'OnFailure' }, [sandbox(0)], [container('main', exited(255))]),
      ['start main/1'],
    ],
    [
      'Never and failure',
      plan({ restartPolicy: 'Never' }, [sandbox(0)], [container('main', exited(3))]),
      ['outcome Failed'],
    ],
    [
      'Never, one still runs',
      plan({ ...two, restartPolicy: 'Never' }, [sandbox(0)], [container('a', exited(0)), container('b', running)]),
      [],
    ],
    [
      'created and not started: taken up',
      plan({ ...two }, [sandbox(0)], [container('a', { kind: 'created' }), container('b', running)]),
      ['resume a0'],
    ],
    [
      'unknown: no second copy',
      plan(
        { ...two },
        [sandbox(0)],
        [container('a', { kind: 'unknown', reason: '', message: 'm' }), container('b', running)],
      ),
      ['wait a ContainerStatusUnknown 1000'],
    ],
    [
      'sandbox lost: what still runs ends first',
      plan(two, [sandbox(0, false)], [container('a', running), container('b', exited(137))]),
      ['kill a0'],
    ],
    [
      'sandbox lost, all dead: a new one',
      plan(two, [sandbox(0, false)], [container('a', exited(137)), container('b', exited(137))]),
      ['sandbox 1'],
    ],
    [
      'sandbox lost, Never: no new one',
      plan(
        { ...two, restartPolicy: 'Never' },
        [sandbox(0, false)],
        [container('a', exited(0)), container('b', exited(0))],
      ),
      ['outcome Succeeded'],
    ],
    [
      'definition changed',
      plan(two, [sandbox(0)], [container('a', running, { hash: 'old' }), container('b', running)]),
      ['kill a0'],
    ],
    [
      'a start that failed waits',
      plan(two, [sandbox(0)], [], { failed: { a: { reason: 'ErrImagePull', message: '', retryInMs: 7 } } }),
      ['start b/0', 'wait a ErrImagePull 7'],
    ],
    [
      'only the last dead run is kept',
      plan(
        two,
        [sandbox(0)],
        [
          container('a', running, { attempt: 2 }),
          container('a', exited(1), { attempt: 1 }),
          container('a', exited(1), { attempt: 0 }),
          container('b', running),
        ],
      ),
      ['rm a0'],
    ],
    [
      'a sandbox that another one has replaced is stopped while its dead are kept, once all is started',
      plan(
        two,
        [sandbox(1), sandbox(0, false)],
        [
          container('a', running, { attempt: 1, sandboxId: 's1' }),
          container('b', running, { attempt: 1, sandboxId: 's1' }),
          container('a', exited(137)),
          container('b', exited(137)),
        ],
      ),
      ['stop s0'],
    ],
    [
      'not before',
      plan(
        two,
        [sandbox(1), sandbox(0, false)],
        [
          container('a', running, { attempt: 1, sandboxId: 's1' }),
          container('a', exited(137)),
          container('b', exited(137)),
        ],
      ),
      ['start b/1'],
    ],
    [
      'and once',
      plan(
        two,
        [sandbox(1), sandbox(0, false)],
        [
          container('a', running, { attempt: 1, sandboxId: 's1' }),
          container('b', running, { attempt: 1, sandboxId: 's1' }),
          container('a', exited(137)),
        ],
        { stopped: ['s0'] },
      ),
      [],
    ],
    [
      'an old sandbox goes with its containers',
      plan(
        two,
        [sandbox(1), sandbox(0, false)],
        [
          container('a', running, { attempt: 2, sandboxId: 's1' }),
          container('a', exited(1), { attempt: 1, sandboxId: 's1' }),
          container('a', exited(1), { attempt: 0 }),
          container('b', running, { sandboxId: 's1' }),
        ],
      ),
      ['rm a0', 'rmp s0'],
    ],
    [
      'an older run is alive: the newer one that never ran is not started',
      plan(
        two,
        [sandbox(0)],
        [container('a', { kind: 'created' }, { attempt: 1 }), container('a', running), container('b', running)],
      ),
      ['rm a1'],
    ],
    ['what was said to be over stays over', plan(two, [], [], { phase: 'Failed' }), ['outcome Failed']],
  ];
  for (const [name, actions, expected] of rows) assert.deepEqual(brief(actions), expected, name);
});

function hashOfMain(): string {
  return containerHash({ name: 'main', image: 'example.test/app:1' });
}

await test('the back-off is never longer than five minutes and never shrinks with more crashes', () => {
  const delay = (crashes: number): number =>
    plan({}, [sandbox(0)], [container('main', exited(1), { crashes })]).waiting[0]?.retryInMs ?? 0;
  fc.assert(
    fc.property(fc.nat(2000), (crashes) => {
      assert.ok(delay(crashes) <= 300_000);
      assert.ok(delay(crashes + 1) >= delay(crashes));
    }),
  );
});

await test('carrying out the plan leads to nothing to do, and no container ever runs twice', () => {
  const stateOf = fc.constantFrom<RuntimeContainerState>(running, exited(0), exited(1), { kind: 'created' });
  fc.assert(
    fc.property(
      fc.constantFrom('Always', 'OnFailure', 'Never'),
      fc.array(fc.boolean(), { maxLength: 3 }),
      fc.array(fc.tuple(fc.constantFrom('a', 'b'), stateOf, fc.nat(2)), { maxLength: 4 }),
      (restartPolicy, ready, found) => {
        const seen = new Set<string>();
        let state: PodRuntimeState = {
          uid: 'u',
          sandboxes: ready.map((isReady, index) => sandbox(index, isReady)).reverse(),
          containers: found
            .map(([name, kind, at], attempt) => container(name, kind, { attempt, sandboxId: `s${String(at)}` }))
            .filter((one) => {
              const twice = one.state.kind === 'running' && seen.has(one.name);
              if (one.state.kind === 'running') seen.add(one.name);
              return !twice;
            })
            .reverse(),
        };
        const pod = testPod({ ...two, restartPolicy });
        const stopped = new Set<string>();
        for (let round = 0; round < 12; round++) {
          const ages = new Map(state.containers.map(({ id }) => [id, 1e9]));
          const actions = computePodActions({
            pod,
            state,
            bootId: 'this-boot',
            stopped,
            failedStarts: new Map(),
            exitAgesMs: ages,
          });
          if (brief(actions).every((line) => line.startsWith('outcome'))) return;
          for (const { id } of actions.stopSandboxes) stopped.add(id);
          state = carryOut(state, actions);
          for (const name of ['a', 'b']) {
            const alive = state.containers.filter((one) => one.name === name && one.state.kind === 'running');
            assert.ok(alive.length <= 1, `${name} runs twice`);
          }
        }
        assert.fail('does not come to rest');
      },
    ),
  );
});

/** A runtime that does what it is told, in which whatever is started goes on running. */
function carryOut(state: PodRuntimeState, actions: PodActions): PodRuntimeState {
  const killed = new Set(actions.kill.map(({ id }) => id));
  const stopped = new Set(actions.stopSandboxes.map(({ id }) => id));
  const resumed = new Set(actions.start.map(({ createdId }) => createdId));
  const containers = state.containers
    .filter(({ id }) => !actions.removeContainers.includes(id))
    .map((one) => ({
      ...one,
      state: killed.has(one.id) || stopped.has(one.sandboxId) ? exited(137) : resumed.has(one.id) ? running : one.state,
    }));
  const started = actions.start
    .filter(({ createdId }) => createdId === undefined)
    .map(({ container: { name }, attempt, crashes }) =>
      container(name, running, { attempt, crashes, sandboxId: actions.sandbox?.id ?? '' }),
    );
  const sandboxes = state.sandboxes
    .filter(({ id }) => !actions.removeSandboxes.includes(id))
    .map((one) => (stopped.has(one.id) ? { ...one, ready: false } : one));
  const made = actions.createSandbox === undefined ? [] : [sandbox(actions.createSandbox.attempt)];
  return { uid: state.uid, sandboxes: [...made, ...sandboxes], containers: [...started, ...containers] };
}
