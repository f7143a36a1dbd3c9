import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually, Gantryd, podOf, type CliOutcome } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CLI = new URL('../../../bin/gantry', import.meta.url).pathname;

describe('exec, attach and port-forward of the command line', { skip }, () => {
  let daemon: Gantryd;
  let leaks: LeakCheck;

  before(async () => {
    daemon = await Gantryd.withImage();
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
    const serve =
      'mkdir -p /www; echo hello from the pod > /www/page; httpd -f -p 80 -h /www & while :; do sleep 1; done';
    await daemon.create(podOf('p', [{ command: ['/bin/sh', '-c', serve] }]));
    await daemon.create(podOf('cat', [{ command: ['/bin/cat'], stdin: true }]));
    await daemon.create(podOf('shell', [{ command: ['/bin/sh'], stdin: true, tty: true }]));
    for (const name of ['p', 'cat', 'shell']) await daemon.ready(name);
  });
  after(async () => {
    await daemon.endPods();
    await leaks.assertNone();
    await daemon[Symbol.asyncDispose]();
  });

  /** Runs a line of shell with a terminal of its own, in which `typed` is typed as soon as the line has printed `prompt`. */
  async function inTerminal(line: string, prompt: RegExp, typed: string): Promise<CliOutcome> {
    const child = spawn('script', ['-qec', line, '/dev/null'], {
      env: {
        ...process.env,
        GANTRY_API: `unix://${daemon.root.apiSocket}`,
        SHELL: '/bin/sh',
        PATH: `${dirname(CLI)}:/usr/bin:/bin`,
      },
      stdio: 'pipe',
    });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (!prompt.test(stdout) && prompt.test(stdout + text)) child.stdin.write(typed);
      stdout += text;
    });
    const [code] = (await once(child, 'close')) as [number];
    return { code, stdout, stderr: '' };
  }

  test('exec: all of the output, each stream on its own, and the exit code', async () => {
    const bytes = 20_000_000;
    const long = await daemon.cli(['exec', 'p', '--', 'head', '-c', String(bytes), '/dev/zero']);
    assert.deepEqual([long.code, long.stderr, long.stdout.length], [0, '', bytes]);
    const both = await daemon.cli(['exec', 'p', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3']);
    assert.deepEqual(both, { code: 3, stdout: 'out\n', stderr: 'err\ncommand terminated with exit code 3\n' });
    assert.equal((await daemon.cli(['exec', 'p', '--', 'no-such-program'])).code, 127);
    assert.equal((await daemon.cli(['exec', 'p', '--', '/bin'])).code, 126);
    assert.equal((await daemon.cli(['exec', 'p', '--', 'sh', '-c', 'kill -KILL $$'])).code, 137);
  });

  test('a reader that is slow gets all of the output, to the last byte', async () => {
    const bytes = 75_000;
    const long = `"${CLI}" --api "unix://${daemon.root.apiSocket}" exec p -- head -c ${bytes} /dev/zero`;
    // By then the command has ended; a pipe takes 65,536 bytes, and the rest waits in the process.
    const child = spawn('sh', ['-c', `${long} | { sleep 2; wc -c; }`]);
    const [counted] = (await once(child.stdout, 'data')) as [Buffer];
    assert.equal(Number(String(counted)), bytes);
  });

  test('exec -i: stdin to its end, whatever is in it', async () => {
    const input = Buffer.alloc(3_000_000, 'a line of text\n');
    const { code, stdout, stderr } = await daemon.cli(['exec', '-i', 'p', '--', 'sh', '-c', 'cat; echo end'], input);
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok(stdout === `${String(input)}end\n`, `${stdout.length} bytes came back`);
  });

  test('a reader that has seen enough ends it, and so does Ctrl-C: nothing of it is left in the container', async () => {
    const child = spawn('sh', ['-c', `"${CLI}" --api "unix://${daemon.root.apiSocket}" exec p -- yes | head -1`]);
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    assert.equal(String(said), 'y\n');
    await once(child, 'close');
    await using endless = daemon.background(['exec', 'p', '--', 'sh', '-c', 'echo begun; sleep 1000']);
    await eventually(
      () => Promise.resolve(endless.stdout()),
      (out) => out.includes('begun'),
      'the command runs',
    );
    endless.kill('SIGINT');
    assert.equal((await endless.ended).code, 130);
    await eventually(
      async () => (await daemon.cli(['exec', 'p', '--', 'ps'])).stdout,
      (processes) => !/yes|sleep 1000/.test(processes),
      'the commands end with those who asked for them',
    );
  });

  test('exec -it: a terminal of our size, which is as it was before when the command ends', async () => {
    const line =
      'stty rows 33 cols 99; before=$(stty -g); gantry exec -it p -- sh; echo "code $?"; [ "$before" = "$(stty -g)" ] && echo restored';
    const { stdout } = await inTerminal(line, /# /, 'stty size; tty; exit 42\r');
    assert.match(stdout, /\r\n33 99\r\n\/dev\/pts\/\d+\r\n/);
    assert.match(stdout, /command terminated with exit code 42\r\ncode 42\r\nrestored\r\n$/);
  });

  test('exec -it: Ctrl-C is the command’s', async () => {
    const { stdout } = await inTerminal(
      'gantry exec -it p -- sh -c "trap \'echo caught; exit 0\' INT; echo waiting; while :; do sleep 1; done"; echo "code $?"',
      /waiting/,
      '\x03',
    );
    assert.match(stdout, /caught\r\ncode 0\r\n$/);
  });

  test('attach: what is typed goes to the container, what it says comes back', async () => {
    await using attached = daemon.background(['attach', '-q', '-i', 'cat'], null);
    attached.type('to and fro\n');
    await eventually(
      () => Promise.resolve(attached.stdout()),
      (out) => out === 'to and fro\n',
      'cat answers',
    );
    attached.kill('SIGINT');
    assert.equal((await attached.ended).code, 130);
    const again = await inTerminal(
      'gantry attach -it shell; echo "code $?"',
      /enter\.\r\n/,
      '\recho in-$((1+1)); exit\r',
    );
    assert.match(again.stdout, /in-2\r\n/);
    assert.match(again.stdout, /Session ended, resume using 'gantry attach shell -c main -i -t'.*\r\ncode 0\r\n$/);
  });

  test('port-forward: several connections at once, one that fails harms none, and the end of the pod ends it', async () => {
    await using forward = daemon.background(['port-forward', 'pod/p', ':80', ':81']);
    const out = await eventually(
      () => Promise.resolve(forward.stdout()),
      (text) => text.split('\n').length > 4,
      'it listens',
    );
    const [good, bad] = [...out.matchAll(/^Forwarding from 127\.0\.0\.1:(\d+) -> \d+$/gm)].map(([, port]) => port);
    const page = (host: string, port = ''): Promise<string> =>
      new Promise((resolve, reject) => {
        const asked = get({ host, port, path: '/page', agent: false }, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
          response.on('end', () => resolve(text));
        });
        asked.on('error', reject);
      });
    await assert.rejects(page('127.0.0.1', bad));
    const pages = await Promise.all(['127.0.0.1', '::1', '127.0.0.1', '::1'].map((host) => page(host, good)));
    assert.deepEqual(new Set(pages), new Set(['hello from the pod\n']));
    assert.equal(forward.stdout().split(`Handling connection for ${good}\n`).length - 1, 4);
    assert.match(forward.stderr(), new RegExp(`^an error occurred forwarding ${bad} -> 81: .*refused`, 'i'));
    await daemon.delete('p', 0);
    const { code, stderr } = await forward.ended;
    assert.equal(code, 1);
    assert.match(stderr, /\nerror: lost connection to pod/);
  });
});
