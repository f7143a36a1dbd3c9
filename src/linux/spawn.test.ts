import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isKind } from '../lib/errors.ts';
import { outputPipe } from './pipe.ts';
import { spawnProcess, type SpawnOptions } from './spawn.ts';

const env = { PATH: '/usr/bin:/bin' };

async function output(options: Pick<SpawnOptions, 'file' | 'args'> & Partial<SpawnOptions>): Promise<string> {
  const pipe = outputPipe();
  const child = await spawnProcess({ cwd: '/', env, fds: [null, pipe.writeFd, pipe.writeFd], ...options });
  pipe.closeWriter();
  const said = await text(pipe.reader);
  await child.exited;
  return said;
}

const sh = (script: string, options: Partial<SpawnOptions> = {}): Promise<string> =>
  output({ file: '/bin/sh', args: ['-c', script], ...options });

test('exit codes and signals are what the program ended with', async () => {
  const ended = async (script: string): Promise<unknown> => {
    const child = await spawnProcess({ file: '/bin/sh', args: ['-c', script], cwd: '/', env, fds: [null, null, null] });
    const exit = await child.exited;
    assert.deepEqual(child.exit, exit);
    return exit;
  };
  assert.deepEqual(await ended('exit 0'), { code: 0, signal: null });
  assert.deepEqual(await ended('exit 255'), { code: 255, signal: null });
  assert.deepEqual(await ended('kill -TERM $$'), { code: -1, signal: 'SIGTERM' });
});

test('folder, environment and arguments arrive as they are', async () => {
  const args = ['-c', 'pwd; echo "$A-$HOME"; printf "[%s]" "$@"', 'sh', 'a b', '', '\'"\n'];
  const said = await output({ file: 'sh', args, cwd: '/usr', env: { ...env, A: 'x y=z', HOME: undefined } });
  assert.equal(said, '/usr\nx y=z-\n[a b][][\'"\n]');
});

test('descriptors get the numbers asked for, and no other one is handed on', async () => {
  const file = openSync('/etc/hostname', 'r');
  try {
    const pipe = outputPipe();
    // The numbers of both may be among those that are asked for.
    const fds = [null, pipe.writeFd, null, file, pipe.writeFd];
    const child = await spawnProcess({ file: '/bin/sh', args: ['-c', 'ls -l /proc/self/fd'], cwd: '/', env, fds });
    pipe.closeWriter();
    const listed = await text(pipe.reader);
    await child.exited;
    const targets = new Map([...listed.matchAll(/ (\d+) -> (.*)$/gm)].map((found) => [Number(found[1]), found[2]]));
    assert.equal(targets.get(0), '/dev/null');
    assert.equal(targets.get(2), '/dev/null');
    assert.equal(targets.get(3), readlinkSync(`/proc/self/fd/${String(file)}`));
    assert.equal(targets.get(4), targets.get(1));
    // ls has opened one of its own.
    assert.equal(targets.size, 6, listed);
  } finally {
    closeSync(file);
  }
});

test('low numbers of ours may change places', async () => {
  const script = `
    import { closeSync, openSync } from 'node:fs';
    import { spawnProcess } from ${JSON.stringify(new URL('./spawn.ts', import.meta.url).href)};
    const options = { file: '/bin/sh', args: ['-c', 'echo out; echo err >&2'], cwd: '/', env: {}, fds: [null, 2, 1] };
    process.exitCode = (await (await spawnProcess(options)).exited).code;
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  assert.deepEqual([out, err.replaceAll(/^.*Warning.*\n/gm, '')], ['err\n', 'out\n']);
});

test('a session of its own, no signal blocked or ignored', async () => {
  const status = await sh('grep -E "^Sig(Blk|Ign)" /proc/self/status; ps -o sid= -p $$ | tr -d " "; echo $$');
  const [blocked, ignored, session, pid] = status.trim().split('\n');
  assert.match(blocked ?? '', /\t0+$/);
  assert.match(ignored ?? '', /\t0+$/);
  assert.equal(session, pid);
});

test('no such program and no such folder are NotFound', async () => {
  const start = (file: string, cwd: string): Promise<unknown> =>
    spawnProcess({ file, args: [], cwd, env, fds: [null, null, null] });
  await assert.rejects(start('/no/such', '/'), (error) => isKind(error, 'NotFound'));
  await assert.rejects(start('/bin/true', '/no/such'), (error) => isKind(error, 'NotFound'));
  await assert.rejects(start('/etc', '/'), (error) => isKind(error, 'PermissionDenied'));
});

test('a signal reaches the child, or its whole group; one that has ended gets none', async () => {
  const fds = [null, null, null];
  const child = await spawnProcess({ file: '/bin/sleep', args: ['600'], cwd: '/', env, fds });
  child.kill('SIGTERM');
  assert.deepEqual(await child.exited, { code: -1, signal: 'SIGTERM' });
  child.kill('SIGKILL');
  child.killGroup('SIGKILL');

  const pipe = outputPipe();
  const args = ['-c', 'sleep 600 & echo $!; wait'];
  const parent = await spawnProcess({ file: '/bin/sh', args, cwd: '/', env, fds: [null, pipe.writeFd, null] });
  pipe.closeWriter();
  const [line] = (await once(pipe.reader, 'data')) as [Buffer];
  parent.killGroup('SIGKILL');
  await Promise.all([parent.exited, once(pipe.reader.resume(), 'end')]);
  await assert.rejects(readFile(`/proc/${line.toString().trim()}/cmdline`, 'utf8').then(aliveOnly));
});

/** A zombie, whose new parent has not come to it yet, has no command line. */
function aliveOnly(commandLine: string): string {
  if (commandLine === '') throw new Error('it has ended');
  return commandLine;
}

test('many at once, and those of Node beside them: each has its own end', async () => {
  const codes = Array.from({ length: 60 }, (_, index) => index);
  const ours = codes.map(async (code) => {
    const args = ['-c', `exit ${String(code)}`];
    const child = await spawnProcess({ file: '/bin/sh', args, cwd: '/', env, fds: [null, null, null] });
    return (await child.exited).code;
  });
  const nodes = codes.slice(0, 10).map(async (code) => {
    const [found] = (await once(spawn('/bin/sh', ['-c', `exit ${String(code)}`]), 'exit')) as [number];
    return found;
  });
  assert.deepEqual(await Promise.all(ours), codes);
  assert.deepEqual(await Promise.all(nodes), codes.slice(0, 10));
});
