import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from './clock.ts';
import { consult, isUnresolved, type Diagnosis, type Examiner } from './doctor.ts';
import { silentLog } from './log.ts';

const op = { signal: new AbortController().signal, log: silentLog };

/** A machine with things on it that have no owner. */
function machine(...names: string[]): { things: Set<string>; examiner: Examiner; looks: number } {
  const things = new Set(names);
  const world = {
    things,
    looks: 0,
    examiner: {
      examine: () => {
        world.looks++;
        const diagnoses = [...things].map((key): Diagnosis => {
          const finding = { problem: 'orphan', kind: 'thing', key, message: 'm', action: 'take it away' } as const;
          if (key === 'stuck') return { finding, fix: () => Promise.reject(new Error('busy')) };
          return { finding, fix: () => Promise.resolve(void things.delete(key)) };
        });
        return Promise.resolve({ diagnoses, notices: [] });
      },
    },
  };
  return world;
}

const ask = (examiner: Examiner, fix: boolean): ReturnType<typeof consult> =>
  consult(op, { instanceId: 'i', examiners: [examiner], clock: systemClock, fix });

test('looking changes nothing', async () => {
  const world = machine('a', 'b');
  const { findings } = await ask(world.examiner, false);
  assert.deepEqual(
    findings.map(({ key, outcome }) => [key, outcome]),
    [
      ['a', undefined],
      ['b', undefined],
    ],
  );
  assert.equal(world.things.size, 2);
});

test('what only one of two looks sees is on its way and no finding', async () => {
  const world = machine('a');
  const passing: Examiner = {
    examine: async (own) => {
      const seen = await world.examiner.examine(own);
      world.things.clear();
      world.things.add(`came at look ${String(world.looks)}`);
      return seen;
    },
  };
  assert.deepEqual((await ask(passing, true)).findings, []);
});

test('a fix counts when a look after it does not find the thing; a failed one says why', async () => {
  const world = machine('a', 'stuck');
  const { findings } = await ask(world.examiner, true);
  assert.deepEqual(
    findings.map(({ key, outcome, error }) => [key, outcome, error]),
    [
      ['a', 'fixed', undefined],
      ['stuck', 'failed', 'busy'],
    ],
  );
  assert.deepEqual(findings.map(isUnresolved), [false, true]);
});

test('what a fix has found to be blocked is not counted as fixed', async () => {
  let tried = false;
  const examiner: Examiner = {
    examine: () => {
      const problem = tried ? 'blocked' : 'orphan';
      const finding = { problem, kind: 'thing', key: 'a', message: 'm', action: 'take it away' } as const;
      const fix = (): Promise<void> => {
        tried = true;
        return Promise.reject(new Error('busy'));
      };
      return Promise.resolve({ diagnoses: [{ finding, fix }], notices: [] });
    },
  };
  const { findings } = await ask(examiner, true);
  assert.deepEqual(
    findings.map(({ problem, outcome, error }) => [problem, outcome, error]),
    [['blocked', 'failed', 'busy']],
  );
});
