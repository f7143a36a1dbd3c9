import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommanderError, type Command } from 'commander';
import { createProgram } from './program.ts';
import type { ProgramHost } from './words/shared-options.ts';

interface Ending {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** What the words alone lead to: none of these commands comes so far as to need anything. */
async function gantry(...words: string[]): Promise<Ending> {
  let out = '';
  let err = '';
  const program = createProgram({
    context: () => assert.fail('a command has run'),
    finished: () => assert.fail('a command has run'),
    print: { out: (text) => (out += text), err: (text) => (err += text) },
  });
  const code = await program.parseAsync(words, { from: 'user' }).then(
    () => 0,
    (error: unknown) => {
      if (error instanceof CommanderError) return error.exitCode;
      throw error;
    },
  );
  return { code, out, err };
}

test('without a command it says what there is, on stdout, and that is no failure', async () => {
  const asked = await gantry('--help');
  assert.equal(asked.code, 0);
  assert.match(asked.out, /^Usage: gantry \[options\] \[command\]\n/);
  for (const words of [[], ['help'], ['--api', 'unix:///x'], ['-h']]) {
    assert.deepEqual(await gantry(...words), asked, words.join(' '));
  }
});

test('where the first word is a command, that one alone is made, as it is among all', () => {
  const host: ProgramHost = {
    context: () => assert.fail('a command has run'),
    finished: () => assert.fail('a command has run'),
  };
  const all = createProgram(host);
  for (const command of all.commands) {
    const alone = createProgram(host, command.name());
    const same = alone.commands.find((other) => other.name() === command.name());
    assert.equal(same?.helpInformation(), command.helpInformation());
    const few = command.name() !== 'completion';
    assert.equal(alone.commands.length, few ? 1 : all.commands.length);
  }
  for (const first of ['help', '--help', 'aply', undefined]) {
    assert.equal(createProgram(host, first).helpInformation(), all.helpInformation());
  }
});

test('a group of commands without a command does the same', async () => {
  const bare = await gantry('image');
  assert.deepEqual([bare.code, bare.err], [0, '']);
  assert.match(bare.out, /^Usage: gantry image /);
  assert.deepEqual(await gantry('help', 'image'), bare);
});

test('help of one command', async () => {
  const help = await gantry('help', 'get');
  assert.deepEqual([help.code, help.err], [0, '']);
  assert.match(help.out, /^Usage: gantry get /);
});

for (const words of [
  ['-n', 'web', '--api', 'unix:///x', 'get', 'pods'],
  ['get', 'pods', '-n', 'web', '--api', 'unix:///x'],
  ['-n', 'other', '--api', 'unix:///y', 'get', '--api=unix:///x', 'pods', '--namespace=web'],
]) {
  test(`gantry ${words.join(' ')}: the same on either side of the command`, async () => {
    const program: Command = createProgram({
      context: () => {
        throw new Error('far enough');
      },
      finished: () => assert.fail('a command has run'),
    });
    await assert.rejects(program.parseAsync(words, { from: 'user' }), /far enough/);
    assert.equal(program.opts<{ api?: string }>().api, 'unix:///x');
    const get = program.commands.find((command) => command.name() === 'get');
    assert.equal(get?.opts<{ namespace?: string }>().namespace, 'web');
  });
}

test('a namespace for a command that knows none is no mistake, and options after -- are nobody else’s', async () => {
  assert.deepEqual((await gantry('-n', 'web', 'completion', '--help')).code, 0);
  const program = createProgram({
    context: () => {
      throw new Error('far enough');
    },
    finished: () => assert.fail('a command has run'),
  });
  await assert.rejects(program.parseAsync(['exec', 'pod', '--', 'sh', '--api', 'x'], { from: 'user' }), /far enough/);
  assert.equal(program.opts<{ api?: string }>().api, undefined);
});

const MISTAKES: readonly (readonly [words: string[], said: string])[] = [
  [['aply'], "error: unknown command 'aply' (Did you mean apply?); gantry --help lists the commands\n"],
  [['potato'], "error: unknown command 'potato'; gantry --help lists the commands\n"],
  [['help', 'aply'], "error: unknown command 'aply' (Did you mean apply?); gantry --help lists the commands\n"],
  [['image', 'pul'], "error: unknown command 'pul' (Did you mean pull?); gantry image --help lists the commands\n"],
  [['get', 'pods', '--wach'], "error: unknown option '--wach' (Did you mean --watch?); see gantry get --help\n"],
  [['get'], "error: missing required argument 'resource'; see gantry get --help\n"],
  [['--wach'], "error: unknown option '--wach'; see gantry --help\n"],
];

for (const [words, said] of MISTAKES) {
  test(`gantry ${words.join(' ')}: one line on stderr, exit code 1`, async () => {
    assert.deepEqual(await gantry(...words), { code: 1, out: '', err: said });
  });
}
