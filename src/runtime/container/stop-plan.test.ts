import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StopIntent } from './state.ts';
import { mergeStop, planStop, SIGNAL_FAILED_WAIT_MS } from './stop-plan.ts';

const now = { boottimeMs: 1000, wallMs: 5, bootId: 'b' };
const ask = (graceMs: number): { graceMs: number; signal: number; reason: string } => ({
  graceMs,
  signal: 15,
  reason: 'r',
});
const stop = (graceMs: number): StopIntent => mergeStop(undefined, ask(graceMs), now);

/** Carries out the plan on a process that never ends; what was done, and when. */
function carryOut(first: StopIntent, untilMs: number, options: { signalFails?: boolean } = {}): [string, number][] {
  const done: [string, number][] = [];
  let intent = first;
  let boottimeMs = now.boottimeMs;
  while (boottimeMs <= untilMs) {
    const step = planStop(intent, boottimeMs);
    if (step.kind === 'wait') {
      assert.ok(step.untilBoottimeMs > boottimeMs, 'a plan never waits for what is past');
      boottimeMs = step.untilBoottimeMs;
      continue;
    }
    done.push([step.kind, boottimeMs - now.boottimeMs]);
    if (step.kind === 'kill') intent = { ...intent, kills: intent.kills + 1, lastKillBoottimeMs: boottimeMs };
    else if (options.signalFails === true) intent = { ...intent, signalFailedBoottimeMs: boottimeMs };
    else intent = { ...intent, signalSentBoottimeMs: boottimeMs };
  }
  return done;
}

test('signal, wait, kill', () => {
  assert.deepEqual(carryOut(stop(10_000), 11_000), [
    ['signal', 0],
    ['kill', 10_000],
  ]);
});

test('no grace: SIGKILL at once, without a signal before', () => {
  assert.deepEqual(carryOut(stop(0), 1_500), [['kill', 0]]);
});

test('a signal that cannot be sent is followed by SIGKILL after 2 s, or sooner if the grace is shorter', () => {
  const failing = { signalFails: true };
  assert.deepEqual(carryOut(stop(60_000), 4_000, failing)[1], ['kill', SIGNAL_FAILED_WAIT_MS]);
  assert.deepEqual(carryOut(stop(500), 2_000, failing)[1], ['kill', 500]);
});

test('SIGKILL is repeated more and more rarely, and for ever', () => {
  const kills = carryOut(stop(0), 2_000_000).map(([, atMs]) => atMs);
  const pauses = kills.slice(1).map((atMs, index) => atMs - (kills[index] ?? 0));
  assert.ok(pauses.length > 20);
  for (const [index, pause] of pauses.entries()) assert.ok(pause >= (pauses[index - 1] ?? 0) && pause <= 60_000);
});

test('deadlines only ever come nearer', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ graceMs: fc.nat(100_000), afterMs: fc.nat(1_000) }), { minLength: 1 }),
      (asked) => {
        let intent: StopIntent | undefined;
        let boottimeMs = now.boottimeMs;
        let earliest = Infinity;
        for (const { graceMs, afterMs } of asked) {
          boottimeMs += afterMs;
          earliest = Math.min(earliest, boottimeMs + graceMs);
          intent = mergeStop(intent, ask(graceMs), { ...now, boottimeMs });
          assert.equal(intent.deadlineBoottimeMs, earliest);
        }
      },
    ),
  );
});

test('a deadline of another boot means nothing', () => {
  const old = { ...stop(5), bootId: 'earlier', signalSentBoottimeMs: 1, kills: 3 };
  assert.deepEqual(mergeStop(old, ask(1000), now), stop(1000));
});

interface Ask {
  readonly atMs: number;
  readonly graceMs: number;
}

/** Plays requests on a process that never ends; each intent goes through the store, as if the daemon were restarted at every step. */
function playStops(asks: readonly Ask[], signalFails: boolean, untilMs: number): { kind: string; atMs: number }[] {
  const done: { kind: string; atMs: number }[] = [];
  const reload = (intent: StopIntent): StopIntent => JSON.parse(JSON.stringify(intent)) as StopIntent;
  let intent: StopIntent | undefined;
  const act = (atMs: number): number => {
    for (;;) {
      if (intent === undefined) return Infinity;
      const step = planStop(intent, atMs);
      if (step.kind === 'wait') return step.untilBoottimeMs;
      done.push({ kind: step.kind, atMs });
      if (step.kind === 'kill') intent = { ...intent, kills: intent.kills + 1, lastKillBoottimeMs: atMs };
      else if (signalFails) intent = { ...intent, signalFailedBoottimeMs: atMs };
      else intent = { ...intent, signalSentBoottimeMs: atMs };
      intent = reload(intent);
    }
  };
  let timerMs = Infinity;
  for (const { atMs, graceMs } of asks) {
    while (timerMs <= atMs) timerMs = act(timerMs);
    intent = reload(mergeStop(intent, ask(graceMs), { ...now, boottimeMs: atMs }));
    timerMs = act(atMs);
  }
  while (timerMs <= untilMs) timerMs = act(timerMs);
  return done;
}

test('whoever asks when, with restarts between all steps: SIGKILL at the earliest deadline and no other time', () => {
  const asks = fc
    .array(fc.record({ atMs: fc.nat(60_000), graceMs: fc.oneof(fc.constant(0), fc.nat(5_000), fc.nat(100_000)) }), {
      minLength: 1,
      maxLength: 6,
    })
    .map((list) => list.sort((a, b) => a.atMs - b.atMs));
  fc.assert(
    fc.property(asks, fc.boolean(), (list, signalFails) => {
      const done = playStops(list, signalFails, 200_000);
      const first = list[0] ?? { atMs: 0, graceMs: 0 };
      const signals = done.filter(({ kind }) => kind === 'signal');
      const kills = done.filter(({ kind }) => kind === 'kill');
      // A later request with a longer grace changes nothing; one with a shorter deadline counts at once. What was asked for
      // after the first SIGKILL cannot matter any more.
      const asked = Math.min(...list.map(({ atMs, graceMs }) => atMs + graceMs));
      const failed = signalFails && first.graceMs > 0 ? first.atMs + SIGNAL_FAILED_WAIT_MS : Infinity;
      assert.equal(kills[0]?.atMs, Math.min(asked, failed));
      assert.deepEqual(signals, first.graceMs > 0 ? [{ kind: 'signal', atMs: first.atMs }] : []);
      assert.ok(done.findIndex(({ kind }) => kind === 'kill') >= signals.length, 'never a signal after SIGKILL');
    }),
  );
});
