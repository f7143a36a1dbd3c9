import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newSandboxStatus, transition, type SandboxStatus } from '../sandbox/state.ts';
import { decideSandbox, type SandboxFound } from './decide-sandbox.ts';

const STARTING = newSandboxStatus(1, 'b');
const READY = transition(STARTING, { kind: 'ready' });
const NOT_READY = transition(READY, { kind: 'not-ready', why: 'x', atWallMs: 2 });
const STOPPED = transition(READY, { kind: 'stopped', atWallMs: 2 });

const found = (more: Partial<SandboxFound> = {}): SandboxFound => ({ sameBoot: true, infra: 'none', ...more });
const decide = (status: SandboxStatus, more: Partial<SandboxFound> = {}): string =>
  decideSandbox(status, found(more)).kind;

test('the table', () => {
  assert.equal(decide(STARTING), 'roll-back');
  assert.equal(decide(STARTING, { sameBoot: false }), 'roll-back');
  for (const status of [NOT_READY, STOPPED]) {
    assert.equal(decide(status), 'keep');
    assert.equal(decide(status, { sameBoot: false, lostPin: 'gone', infra: 'gone' }), 'keep');
  }
  assert.equal(decide(READY), 'keep');
  assert.equal(decide(READY, { infra: 'alive' }), 'keep');
  assert.equal(decide(READY, { sameBoot: false }), 'not-ready');
  assert.equal(decide(READY, { lostPin: 'its net namespace is not there' }), 'not-ready');
  assert.equal(decide(READY, { infra: 'gone' }), 'not-ready');
});

test('a sandbox is READY only while all of it is there; what is decided once stays so', () => {
  const statuses = fc.constantFrom(STARTING, READY, NOT_READY, STOPPED);
  const looks: fc.Arbitrary<SandboxFound> = fc.record(
    {
      sameBoot: fc.boolean(),
      infra: fc.constantFrom('alive' as const, 'gone' as const, 'none' as const),
      lostPin: fc.constant('its net namespace is not there'),
    },
    { requiredKeys: ['sameBoot', 'infra'] },
  );
  fc.assert(
    fc.property(statuses, looks, looks, (status, look, later) => {
      const decision = decideSandbox(status, look);
      const whole = look.sameBoot && look.lostPin === undefined && look.infra !== 'gone';
      switch (decision.kind) {
        case 'roll-back':
          assert.equal(status.state.kind, 'starting');
          return;
        case 'keep':
          assert.ok(status.state.kind === 'notready' || (status.state.kind === 'ready' && whole));
          return;
        case 'not-ready': {
          assert.ok(status.state.kind === 'ready' && !whole);
          assert.notEqual(decision.why, '');
          const next = transition(status, { kind: 'not-ready', why: decision.why, atWallMs: 3 });
          assert.equal(decideSandbox(next, later).kind, 'keep');
        }
      }
    }),
  );
});
