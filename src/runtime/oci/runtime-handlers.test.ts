import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import { silentLog } from '../../lib/log.ts';
import { defaultCandidates, parseHandlers } from './handler-settings.ts';
import type { ProbeOutcome } from './probe-memory.ts';
import { NO_FEATURES } from './runtime-features.ts';
import { RuntimeHandlers } from './runtime-handlers.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

/** Those programs work; the others say that they are broken. */
function handlers(choice: string, texts: readonly string[], works: Set<string>) {
  const tried: string[] = [];
  const made = new RuntimeHandlers({
    choice,
    configured: parseHandlers(texts),
    probe: (_op, { name, program }) => {
      tried.push(name);
      if (!works.has(program)) return Promise.resolve({ name, path: program, reason: 'broken' });
      const runtime = { name, path: program, root: `/oci-${name}` };
      return Promise.resolve({
        runtime,
        version: '1',
        features: { ...NO_FEATURES, recursiveReadOnlyMounts: name === 'runc' },
      });
    },
  });
  return { made, tried };
}

test('handlers as they are written', () => {
  assert.deepEqual(parseHandlers(['crun', 'kata=/usr/bin/kata']), [
    { name: 'crun', program: 'crun' },
    { name: 'kata', program: '/usr/bin/kata' },
  ]);
  for (const wrong of [[''], ['Kata'], ['a=b'], ['a=/b=c'], ['=/b'], ['a', 'a=/b'], ['a/b']]) {
    assert.throws(() => parseHandlers(wrong), { kind: 'InvalidArgument' }, wrong.join());
  }
});

test('the default one: as chosen, else crun before runc, among those that are named', () => {
  const names = (choice: string, ...texts: string[]): string[] =>
    defaultCandidates(choice, parseHandlers(texts)).map(({ name, program }) => `${name}:${program}`);
  assert.deepEqual(names('auto'), ['crun:crun', 'runc:runc']);
  assert.deepEqual(names('auto', 'kata=/k', 'runc=/new'), ['runc:/new']);
  assert.deepEqual(names('auto', 'kata=/k'), ['crun:crun', 'runc:runc']);
  assert.deepEqual(names('runc', 'runc=/new'), ['runc:/new']);
  assert.deepEqual(names('/opt/x', 'runc'), ['x:/opt/x']);
});

test('a sandbox gets what it asks for, or is told why not', async () => {
  const { made } = handlers('auto', ['runc', 'kata=/k', 'gvisor=/g'], new Set(['runc', '/k']));
  await made.probe(op);
  assert.equal(made.unready, undefined);
  assert.equal(made.choose('').runtime.name, 'runc');
  assert.equal(made.choose('kata').runtime.path, '/k');
  assert.throws(
    () => made.choose('gvisor'),
    (error) => /"gvisor" does not work here: \/g: broken/.test(messageOf(error)),
  );
  assert.throws(() => made.choose('other'), { kind: 'InvalidArgument' });
  assert.equal(made.featuresOf({ path: 'runc' }).recursiveReadOnlyMounts, true);
  assert.equal(made.featuresOf({ path: '/gone' }).recursiveReadOnlyMounts, false);
});

test('none works: it says why, tries again less and less often, and is ready when one does', async () => {
  const works = new Set<string>();
  const { made, tried } = handlers('auto', [], works);
  await made.probe(op);
  assert.match(made.unready ?? '', /no usable OCI runtime: crun: broken; runc: broken/);
  assert.throws(() => made.choose(''), { kind: 'Unavailable' });
  assert.deepEqual(made.fallback.name, 'crun');
  const clock = new FakeClock();
  const trying = made.keepTrying(op, clock);
  await clock.advance(10_000);
  assert.equal(tried.length, 6, 'after 2 s and after 6 s');
  assert.throws(() => made.choose(''), { kind: 'Unavailable' });
  works.add('runc');
  await clock.advance(10_000);
  await trying;
  assert.equal(made.unready, undefined);
  assert.equal(made.choose('').runtime.name, 'runc');
});

test('what an earlier process has found is believed, and tried a while later', async () => {
  const clock = new FakeClock();
  const outcomes = new Map<string, ProbeOutcome>();
  const working = { runtime: { name: 'runc', path: '/runc', root: '' }, version: '1', features: NO_FEATURES };
  const tried: string[] = [];
  const made = new RuntimeHandlers({
    choice: 'auto',
    configured: [],
    recall: ({ name }) => Promise.resolve(name === 'runc' ? working : { name, reason: 'broken' }),
    probe: (_op, { name }) => {
      tried.push(name);
      return Promise.resolve(outcomes.get(name) ?? { name, reason: 'broken by now' });
    },
  });
  await made.open(op);
  assert.equal(made.choose('').runtime.path, '/runc');
  assert.deepEqual(tried, []);
  void made.verify(op, clock);
  await clock.advance(60_000);
  assert.deepEqual(tried.slice(0, 2), ['crun', 'runc']);
  assert.match(made.unready ?? '', /broken by now/);
  outcomes.set('runc', working);
  await clock.advance(120_000);
  assert.equal(made.choose('').runtime.path, '/runc');
});

test('where all that is known is refused, it is tried before anybody is told so', async () => {
  const working = { runtime: { name: 'runc', path: '/runc', root: '' }, version: '1', features: NO_FEATURES };
  const made = new RuntimeHandlers({
    choice: 'runc',
    configured: [],
    recall: ({ name }) => Promise.resolve({ name, reason: 'broken' }),
    probe: () => Promise.resolve(working),
  });
  await made.open(op);
  assert.equal(made.unready, undefined);
});

test('what has been tried at the start is not tried a second time before it is said that no pod can be made', async () => {
  const clock = new FakeClock();
  const said: string[] = [];
  const tried: string[] = [];
  const made = new RuntimeHandlers({
    choice: 'runc',
    configured: parseHandlers(['kata=/k', 'runc']),
    recall: ({ name }) =>
      Promise.resolve(
        name === 'kata'
          ? { runtime: { name, path: '/k', root: '' }, version: '1', features: NO_FEATURES }
          : { name, reason: 'broken' },
      ),
    probe: (_op, { name }) => {
      tried.push(name);
      return Promise.resolve({ name, reason: 'still broken' });
    },
  });
  await made.open(op);
  assert.deepEqual(tried, ['runc']);
  void made.verify({ ...op, log: { ...silentLog, error: (_fields, message) => void said.push(message) } }, clock);
  await clock.advance(0);
  assert.match(said.join(), /no new pod can be made/);
  await clock.advance(1_999);
  assert.deepEqual(tried, ['runc']);
});
