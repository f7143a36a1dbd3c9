import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examplePod } from '../../kube/api/fake-api.ts';
import type { LogOptions } from '../../kube/gantry-extensions.ts';
import { notFound } from '../../lib/errors.ts';
import { openFakeCli, type FakeCli } from '../fake-cli.ts';

/** Two pods of an application and one of another; `asked` collects what the daemon is asked for. */
async function room(asked: LogOptions[] = []): Promise<FakeCli> {
  const cli = await openFakeCli({
    logs: async function* (_op, options) {
      asked.push(options);
      const { name, container = '?' } = options;
      if (container === 'late') throw notFound(`container ${container} of pod ${name} has no log yet`);
      await Promise.resolve();
      yield Buffer.from(`1 ${name}`);
      yield Buffer.from(` ${container}\n2 no`);
      yield Buffer.from(' newline');
    },
  });
  const containers = [
    { name: 'main', image: 'x:1' },
    { name: 'side', image: 'x:1' },
  ];
  for (const name of ['web-1', 'web-0']) {
    await cli.api.kube.create(cli.api.op, 'pods', examplePod(name, { containers }, { app: 'web' }));
  }
  await cli.pod('db', { app: 'db' });
  return cli;
}

const NOTICE = 'Defaulted container "main" out of: main, side\n';

const CASES: readonly (readonly [words: string, out: string, err?: string])[] = [
  ['logs db', '1 db main\n2 no newline'],
  ['logs web-0', '1 web-0 main\n2 no newline', NOTICE],
  ['logs web-0 side', '1 web-0 side\n2 no newline'],
  ['logs web-0 -c side --prefix', '[pod/web-0/side] 1 web-0 side\n[pod/web-0/side] 2 no newline\n'],
  ['logs web-0 --all-containers', '1 web-0 main\n2 no newline\n1 web-0 side\n2 no newline\n'],
  [
    'logs pod/web-0 --all-containers --prefix',
    '[pod/web-0/main] 1 web-0 main\n[pod/web-0/main] 2 no newline\n[pod/web-0/side] 1 web-0 side\n[pod/web-0/side] 2 no newline\n',
  ],
  ['logs -l app=web -c side', '1 web-0 side\n2 no newline\n1 web-1 side\n2 no newline\n'],
  ['logs -l app=web', '1 web-0 main\n2 no newline\n1 web-1 main\n2 no newline\n', NOTICE + NOTICE],
  ['logs -l app=db --prefix', '[pod/db/main] 1 db main\n[pod/db/main] 2 no newline\n'],
  ['logs -l app=none', '', 'No resources found in default namespace\n'],
];

for (const [words, out, err = ''] of CASES) {
  test(`gantry ${words}`, async () => {
    assert.deepEqual(await (await room()).run(words.split(' ')), { code: 0, out, err });
  });
}

const MISTAKES: readonly (readonly [words: string, err: RegExp])[] = [
  ['logs', /^error: name a pod, or choose pods with -l SELECTOR\n$/],
  ['logs web-0 -l app=web', /^error: a pod's name and a selector cannot be used together\n$/],
  ['logs web-0 -c main --all-containers', /^error: -c main and --all-containers cannot be used together\n$/],
  ['logs nobody', /pods "nobody" not found/],
  [
    'logs -f -l app=web --all-containers --max-log-requests 3',
    /^error: that would follow 4 logs at once, and 3 is the limit: raise it with --max-log-requests\n$/,
  ],
];

for (const [words, err] of MISTAKES) {
  test(`gantry ${words}: refused`, async () => {
    const ending = await (await room()).run(words.split(' '));
    assert.deepEqual([ending.code, ending.out], [1, '']);
    assert.match(ending.err, err);
  });
}

test('a selector shows ten lines of each, unless it is told otherwise', async () => {
  const asked: LogOptions[] = [];
  const cli = await room(asked);
  for (const words of ['logs -l app=db', 'logs -l app=db --tail 3', 'logs -l app=db --tail -1', 'logs db']) {
    await cli.run(words.split(' '));
  }
  assert.deepEqual(
    asked.map(({ tailLines }) => tailLines),
    [10, 3, undefined, undefined],
  );
});

test('one log that cannot be had is named, and the others are shown', async () => {
  const cli = await room();
  const containers = [
    { name: 'late', image: 'x:1' },
    { name: 'main', image: 'x:1' },
  ];
  await cli.api.kube.create(cli.api.op, 'pods', examplePod('new', { containers }));
  const { code, out, err } = await cli.run(['logs', 'new', '--all-containers']);
  assert.deepEqual([code, out], [1, '1 new main\n2 no newline\n']);
  assert.equal(err, 'error: container late of pod new has no log yet\n');
});

test('several are followed side by side, whole lines at a time', async () => {
  const cli = await room();
  const { code, out } = await cli.run('logs -f -l app=web --all-containers --prefix'.split(' '));
  assert.equal(code, 0);
  const lines = out.trimEnd().split('\n').sort();
  assert.equal(lines.length, 8);
  for (const text of lines) assert.match(text, /^\[pod\/(web-[01])\/(main|side)\] (1 \1 \2|2 no newline)$/);
});

test('a time that is none of RFC 3339 is refused by its flag', async () => {
  const cli = await room();
  for (const time of ['2020', 'yesterday', '']) {
    const { code, out, err } = await cli.run(['logs', 'web-0', '-c', 'main', '--since-time', time]);
    assert.deepEqual([code, out], [1, '']);
    assert.match(err, /"--since-time": it should be an RFC 3339 time/);
  }
  assert.equal((await cli.run(['logs', 'web-0', '-c', 'main', '--since-time', '2020-01-01T00:00:00Z'])).code, 0);
});
