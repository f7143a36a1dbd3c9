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
