import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { eventually, Gantryd, podOf, SLEEP } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
/** Hears the signal and goes on. */
const DEAF = 'trap "" TERM; echo deaf; while :; do sleep 1; done';

describe('how pods and containers end', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  afterEach(() => daemon.endPods());
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const explain = (name: string): Promise<string> => daemon.gantry('explain', 'pod', name);

  /** When a step of the story was, in seconds since the pod's beginning. */
  const timeOf = (story: string, step: RegExp): number => {
    const line = story.split('\n').find((text) => step.test(text));
    assert.ok(line, `${String(step)} in\n${story}`);
    return Number(/^\+(\d+\.\d+)/.exec(line)?.[1]);
  };

  test('two containers end side by side, each in its own way, within one grace', async () => {
    const polite = 'trap "sleep 2; exit 3" TERM; while :; do sleep 1 & wait $!; done';
    // Long enough for the polite one on a machine that emulates another.
    const grace = 10;
    const spec = { terminationGracePeriodSeconds: grace };
    await daemon.apply(podOf('sides', [{ script: polite }, { script: DEAF }, { script: DEAF }], spec), '--wait');
    await daemon.gantry('delete', 'pod', 'sides');
    const story = await explain('sides');
    const asked = timeOf(story, /the pod is being ended/);
    const killed = ['c1', 'c2'].map((name) => timeOf(story, new RegExp(`${name} +SIGKILL sent`)) - asked);
    for (const seconds of killed) assert.ok(seconds >= grace - 0.5, `${String(seconds)} s: it had its grace`);
    // One after the other they would be a grace apart.
    assert.ok(Math.abs((killed[0] ?? 0) - (killed[1] ?? 0)) < grace - 0.5, story);
    assert.match(story, /main +ended with code 3/);
    assert.match(story, /c1 +ended with code 137/);
    assert.ok(!/main +SIGKILL/.test(story), story);
    await leaks.assertNone();
  });

  test('a preStop hook runs inside the grace, before the signal', async () => {
    const lifecycle = { preStop: { exec: { command: ['/bin/sh', '-c', 'echo hook > /proc/1/fd/1; sleep 1'] } } };
    const script = 'trap "echo term; exit 0" TERM; while :; do sleep 1 & wait $!; done';
    await daemon.apply(podOf('hook', [{ script, lifecycle }]), '--wait');
    await using logs = daemon.background(['logs', '-f', 'hook']);
    await daemon.gantry('delete', 'pod', 'hook');
    await logs.ended;
    assert.equal(logs.stdout(), 'hook\nterm\n');
    const story = await explain('hook');
    assert.ok(timeOf(story, /the preStop hook has run/) <= timeOf(story, /SIGTERM sent/));
    await leaks.assertNone();
  });

  test('a hook that never ends has the grace and no more; one that fails holds up nothing', async () => {
    const endless = { preStop: { exec: { command: ['/bin/sh', '-c', 'while :; do sleep 1; done'] } } };
    const failing = { preStop: { exec: { command: ['/bin/sh', '-c', 'echo why >&2; exit 4'] } } };
    const spec = { terminationGracePeriodSeconds: 10 };
    await daemon.apply(podOf('hooks', [{ lifecycle: endless }, { lifecycle: failing }], spec), '--wait');
    await daemon.gantry('delete', 'pod', 'hooks');
    const story = await explain('hooks');
    const asked = timeOf(story, /the pod is being ended/);
    const overrun = timeOf(story, /main +.*PreStopHook failed/) - asked;
    assert.ok(overrun >= 9.5, `${String(overrun)} s`);
    assert.match(story, /main +PreStopHook failed: .*grace period/);
    assert.match(story, /c1 +PreStopHook failed: .*4/);
    assert.ok(timeOf(story, /c1 +ended with code 0/) - asked < overrun, story);
    const events = await daemon.eventsOf('hooks');
    assert.equal(events.filter(({ reason }) => reason === 'FailedPreStopHook').length, 2);
    await leaks.assertNone();
  });

  test('--grace-period=0 kills at once, without hooks; --now leaves a moment', async () => {
    const lifecycle = { preStop: { exec: { command: ['/bin/sh', '-c', 'sleep 60'] } } };
    const spec = { terminationGracePeriodSeconds: 300 };
    await daemon.apply(podOf('zero', [{ script: DEAF, lifecycle }], spec), '--wait');
    const said = await daemon.gantry('delete', 'pod', 'zero', '--grace-period=0', '--force');
    assert.match(said, /pod "zero" force deleted/);
    const story = await explain('zero');
    assert.match(story, /ended with code 137/);
    assert.ok(!story.includes('preStop'), story);
    assert.ok(timeOf(story, /ended with code/) - timeOf(story, /the pod is being ended/) < 60);

    await daemon.apply(podOf('now', [{ script: DEAF }], spec), '--wait');
    await daemon.gantry('delete', 'pod/now', '--now');
    const second = await explain('now');
    assert.match(second, /SIGTERM sent[^]*SIGKILL sent/);
    assert.ok(timeOf(second, /SIGKILL sent/) - timeOf(second, /the pod is being ended/) < 60);
    await leaks.assertNone();
  });

  test('a running end is made shorter by a second delete, never longer', async () => {
    const spec = { terminationGracePeriodSeconds: 600 };
    await daemon.apply(podOf('longer', [{ script: DEAF }], spec), '--wait');
    await daemon.gantry('delete', 'pod', 'longer', '--wait=false');
    await daemon.eventWhen('longer', 'Killing', /main/);
    await daemon.gantry('delete', 'pod', 'longer', '--grace-period=900', '--wait=false');
    const pending = await explain('longer');
    assert.match(pending, /Still pending:[^]*container main: is being stopped, [1-6]\d\d s of grace left/);
    assert.match(await daemon.gantry('get', 'pods'), /longer .* Terminating/);
    await daemon.gantry('delete', 'pod', 'longer', '--grace-period=2');
    const story = await explain('longer');
    assert.match(story, /ended with code 137/);
    assert.ok(timeOf(story, /SIGKILL sent/) - timeOf(story, /the pod is being ended/) < 300);
    await leaks.assertNone();
  });

  test('deleted while it is being made, and while its image is missing', async () => {
    await daemon.apply(podOf('early', [{}, {}]));
    await daemon.gantry('delete', 'pod', 'early');
    await daemon.apply(podOf('imageless', [{ image: 'localhost/not/there:1' }]));
    await daemon.eventWhen('imageless', 'ErrImageNeverPull', /not\/there/);
    await daemon.gantry('delete', 'pod', 'imageless');
    const absent = await daemon.cli(['delete', 'pod', 'imageless']);
    assert.equal(absent.code, 1);
    assert.match(absent.stderr, /^Error from server \(NotFound\): pods "imageless" not found\n$/);
    assert.equal((await daemon.cli(['delete', 'pod', 'imageless', '--ignore-not-found'])).code, 0);
    await leaks.assertNone();
  });

  test('several pods end at once by --all, whatever state they are in', async () => {
    await daemon.apply(podOf('all-one', [{}]), '--wait');
    await daemon.apply(podOf('all-two', [{ script: 'exit 1' }], { restartPolicy: 'Never' }));
    await daemon.podWhen('all-two', ({ status }) => status?.phase === 'Failed', 'failed');
    const said = await daemon.gantry('delete', 'pods', '--all');
    assert.match(said, /pod "all-one" deleted/);
    assert.match(said, /pod "all-two" deleted/);
    // It had ended before anybody asked for that.
    assert.match(await explain('all-two'), /being ended {2}\(all containers have ended\)[^]*the pod was deleted/);
    await leaks.assertNone();
  });

  test('stop ends several containers; each success is printed, the errors come together', async () => {
    const script = 'trap "exit 7" USR1; trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
    await daemon.apply(podOf('stops', [{ script }, { script: DEAF }], { restartPolicy: 'Never' }), '--wait');
    const outcome = await daemon.cli(['stop', '-t', '2', 'stops/main', 'nobody', 'stops/c1', 'no/body']);
    assert.equal(outcome.code, 1);
    assert.deepEqual(outcome.stdout.trimEnd().split('\n').sort(), ['stops/c1', 'stops/main']);
    const errors = outcome.stderr.trimEnd().split('\n').sort();
    assert.equal(errors.length, 2, outcome.stderr);
    assert.match(errors.join('\n'), /"no\/body" not found[^]*"nobody" not found/);
    const pod = await daemon.podWhen('stops', ({ status }) => status?.phase === 'Failed', 'failed');
    assert.deepEqual(
      pod.status?.containerStatuses?.map(({ name, state }) => [name, state?.terminated?.exitCode]),
      [
        ['main', 0],
        ['c1', 137],
      ],
    );
    // What has ended is ended: no error.
    assert.equal((await daemon.cli(['stop', 'stops/main'])).code, 0);
    await daemon.gantry('delete', 'pod', 'stops');

    await daemon.apply(podOf('signal', [{ script }], { restartPolicy: 'Never' }), '--wait');
    assert.equal(await daemon.gantry('stop', '-s', 'USR1', '-t', '60', 'main'), 'main\n');
    const signalled = await daemon.podWhen('signal', ({ status }) => status?.phase === 'Failed', 'failed');
    assert.equal(signalled.status?.containerStatuses?.[0]?.state?.terminated?.exitCode, 7);
    const wrong = await daemon.cli(['stop', '-s', 'NOSUCH', 'main']);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /NOSUCH/);
    await daemon.gantry('delete', 'pod', 'signal');
    await leaks.assertNone();
  });

  test('a stopped container is started again where the restart policy says so', async () => {
    await daemon.apply(podOf('again', [{ script: SLEEP }]), '--wait');
    await daemon.gantry('stop', 'again/main');
    await eventually(
      () => daemon.pod('again'),
      (pod) => pod?.status?.containerStatuses?.[0]?.restartCount === 1 && pod.status.containerStatuses[0].ready,
      'running again',
    );
    await daemon.gantry('delete', 'pod', 'again');
    await leaks.assertNone();
  });

  test('processes that a container leaves behind end with it, in whatever session they are', async () => {
    const script =
      'setsid sh -c "trap \\"\\" TERM HUP; while :; do sleep 1; done" & trap "exit 0" TERM; while :; do sleep 1 & wait $!; done';
    await daemon.apply(podOf('children', [{ script }], { shareProcessNamespace: true }), '--wait');
    await daemon.gantry('delete', 'pod', 'children');
    await leaks.assertNone();
  });
});
