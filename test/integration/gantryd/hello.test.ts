import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import type { ContainerStatus, ObjectList, Pod } from '../../../src/kube/objects.ts';
import { eventually, freePort, Gantryd, podOf } from '../../support/gantryd.ts';
import { LeakCheck } from '../../support/leak-check.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const EXAMPLE = new URL('../../../examples/hello.yaml', import.meta.url).pathname;

/** All but the files: records, images and layers are to be found again. */
const PROBES_OF_THE_MACHINE = [
  'processes',
  'mounts',
  'network namespaces',
  'CNI addresses',
  'links',
  'iptables rules',
  'cgroups',
];

describe('the example, from apply to nothing left', { skip }, () => {
  let daemon: Gantryd;
  /** Before the first start, and with the image in the store. */
  let bare: LeakCheck;
  let leaks: LeakCheck;
  let port: number;
  let manifest: string;

  before(async () => {
    daemon = await Gantryd.make();
    bare = await LeakCheck.begin(daemon.root.leakRoots());
    await daemon.start();
    await daemon.importImage();
    port = await freePort();
    manifest = (await readFile(EXAMPLE, 'utf8')).replace('hostPort: 8080', `hostPort: ${String(port)}`);
    leaks = await LeakCheck.begin(daemon.root.leakRoots([{ path: daemon.root.logRoot }]));
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const page = async (): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${String(port)}/`, { signal: AbortSignal.timeout(60_000) });
    return answer.ok ? await answer.text() : '';
  };

  test('apply --wait returns when the pod is ready, and the page is served on the host port', async () => {
    const said = await daemon.apply(manifest, '--wait', '--timeout', '300s');
    assert.deepEqual(said.trimEnd().split('\n'), [
      'configmap/hello-config created',
      'secret/hello-secret created',
      'pod/hello created',
      'pod/hello ready',
    ]);
    const text = await eventually(
      () => page().catch(() => ''),
      (answer) => answer.includes('Hello from a pod'),
      'the page',
    );
    const pod = await daemon.pod('hello');
    assert.ok(text.includes(`I am hello at ${pod?.status?.podIP ?? '?'}, and this is page`));
    assert.match(text, /My secret has 15 characters\./);
    assert.match(text, /<title>Gantry<\/title>/);
  });

  test('applying it again changes nothing', async () => {
    const before = await daemon.pids('hello');
    const said = await daemon.apply(manifest, '--wait');
    assert.match(said, /configmap\/hello-config unchanged/);
    assert.match(said, /pod\/hello unchanged/);
    assert.deepEqual(await daemon.pids('hello'), before);
  });

  test('get shows it as a row, wide, as JSON and as YAML', async () => {
    const rows = (await daemon.gantry('get', 'pods')).trimEnd().split('\n');
    assert.match(rows[0] ?? '', /^NAME +READY +STATUS +RESTARTS +AGE$/);
    assert.match(rows[1] ?? '', /^hello +2\/2 +Running +0 +\d+/);
    const ip = (await daemon.pod('hello'))?.status?.podIP ?? '?';
    const wide = await daemon.gantry('get', 'pods', '-o', 'wide');
    assert.match(wide, /^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE/);
    assert.ok(wide.includes(` ${ip} `));
    const list = JSON.parse(await daemon.gantry('get', 'pods', '-o', 'json')) as ObjectList<Pod>;
    assert.equal(list.items[0]?.metadata.name, 'hello');
    const one = parse(await daemon.gantry('get', 'pod', 'hello', '-o', 'yaml')) as Pod;
    assert.equal(one.kind, 'Pod');
    assert.equal(one.status?.phase, 'Running');
    assert.deepEqual(
      one.status.containerStatuses?.map(({ name, ready, restartCount }: ContainerStatus) => [
        name,
        ready,
        restartCount,
      ]),
      [
        ['writer', true, 0],
        ['server', true, 0],
      ],
    );
    assert.equal(await daemon.gantry('get', 'pods', '-o', 'name'), 'pod/hello\n');
    assert.match(await daemon.gantry('get', 'configmaps,secrets'), /hello-config[^]*hello-secret/);
    assert.match(await daemon.gantry('get', 'nodes'), / Ready /);
  });

  test('describe says what it is, what state it is in and what happened', async () => {
    const text = await daemon.gantry('describe', 'pod', 'hello');
    for (const words of [/Name: +hello/, /writer:/, /server:/, /Started/, /Events:/, /State: +Running/]) {
      assert.match(text, words);
    }
    assert.ok(!text.includes('not-very-secret'));
  });

  test('exec runs a command in a container, with its exit code', async () => {
    assert.equal(await daemon.gantry('exec', 'hello', '-c', 'writer', '--', 'hostname'), 'hello\n');
    assert.match(
      await daemon.gantry('exec', 'hello', '-c', 'server', '--', 'cat', '/data/index.html'),
      /Hello from a pod/,
    );
    const failed = await daemon.cli([
      'exec',
      'hello',
      '-c',
      'writer',
      '--',
      'sh',
      '-c',
      'echo out; echo err >&2; exit 7',
    ]);
    assert.equal(failed.code, 7);
    assert.equal(failed.stdout, 'out\n');
    assert.match(failed.stderr, /^err\ncommand terminated with exit code 7\n$/);
    const readOnly = await daemon.cli(['exec', 'hello', '-c', 'writer', '--', 'touch', '/etc/hello-secret/x']);
    assert.notEqual(readOnly.code, 0);
    assert.match(readOnly.stderr, /Read-only file system/);
    const noSuch = await daemon.cli(['exec', 'hello', '-c', 'writer', '--', 'no-such-command']);
    assert.notEqual(noSuch.code, 0);
    assert.match(noSuch.stderr, /no-such-command/);
    const terminal = await daemon.cli(['exec', '-it', 'hello', '--', 'sh']);
    assert.equal(terminal.code, 0);
    assert.match(terminal.stderr, /Unable to use a TTY - input is not a terminal/);
  });

  test('logs: all of it, the last lines, with times, of the container that is asked for', async () => {
    const all = await eventually(
      () => daemon.gantry('logs', 'hello', '-c', 'writer'),
      (text) => text.includes('page 11 written'),
      'the second line of the log',
    );
    assert.match(all, /^writer: page 1 written\nwriter: page 11 written\n/);
    assert.match(await daemon.gantry('logs', 'hello', 'writer', '--tail', '1'), /^writer: page \d*1 written\n$/);
    const timed = await daemon.gantry('logs', 'pod/hello', '-c', 'writer', '--timestamps');
    assert.match(timed, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S+ writer: page 1 written\n/);
    const which = await daemon.cli(['logs', 'hello']);
    assert.equal(which.code, 0);
    assert.match(which.stderr, /Defaulted container "writer" out of: writer, server/);
    assert.match(which.stdout, /^writer: page 1 written\n/);
    const previous = await daemon.cli(['logs', '-p', 'hello', '-c', 'writer']);
    assert.equal(previous.code, 1);
    assert.match(previous.stderr, /previous terminated container "writer"/);
  });

  test('logs -f goes on until the container ends', async () => {
    await daemon.apply(
      podOf('short', [{ script: 'for n in 1 2 3; do echo line $n; sleep 1; done' }], { restartPolicy: 'Never' }),
    );
    await daemon.podWhen('short', ({ status }) => status?.phase !== 'Pending', 'started');
    const followed = await daemon.cli(['logs', '-f', 'short']);
    assert.equal(followed.code, 0);
    assert.equal(followed.stdout, 'line 1\nline 2\nline 3\n');
    await daemon.gantry('delete', 'pod', 'short');
  });

  test('events are there, in order', async () => {
    const text = await daemon.gantry('events', '--for', 'pod/hello');
    assert.match(text, /^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n/);
    for (const reason of ['Created', 'Started']) assert.ok(text.includes(reason), reason);
    assert.ok(!text.includes('Warning'), text);
  });

  test('delete --dry-run says what would go, and nothing goes', async () => {
    const said = await daemon.gantry('delete', 'pod', 'hello', '--dry-run');
    assert.match(said, /^pod "hello" deleted \((server |client )?dry run\)\n$/);
    assert.equal((await daemon.pod('hello'))?.metadata.deletionTimestamp, undefined);
  });

  test('get -w prints a row for each change, delete waits until all is gone, explain tells the whole life', async () => {
    await using watching = daemon.background(['get', 'pods', '-w']);
    await eventually(
      () => Promise.resolve(watching.stdout()),
      (text) => text.includes('hello'),
      'the first row',
    );
    const path = `${daemon.root.dir}/hello.yaml`;
    await writeFile(path, manifest);
    const said = await daemon.gantry('delete', '-f', path);
    assert.match(said, /configmap "hello-config" deleted/);
    assert.match(said, /secret "hello-secret" deleted/);
    assert.match(said, /pod "hello" deleted/);
    assert.equal(await daemon.pod('hello'), undefined);
    await eventually(
      () => Promise.resolve(watching.stdout()),
      (text) => text.includes('Terminating'),
      'a row of the end',
    );
    watching.kill('SIGINT');
    await watching.ended;

    const none = await daemon.cli(['get', 'pods']);
    assert.equal(none.code, 0);
    assert.equal(none.stderr, 'No resources found in default namespace\n');
    const missing = await daemon.cli(['get', 'pod', 'hello']);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /^Error from server \(NotFound\): pods "hello" not found\n$/);
    await assert.rejects(page());

    const story = await daemon.gantry('explain', 'pod', 'hello');
    const steps = [
      /the pod is here/,
      /volume data .* is ready/,
      /the pod is being ended +\(the pod was deleted\)/,
      /the preStop hook has run/,
      /server +SIGTERM sent/,
      /writer +ended with code 0/,
      /server +ended with code 0/,
      /volume data .* is torn down/,
      /sandbox removed/,
      /the pod is gone/,
      /Nothing is pending\./,
    ];
    for (const step of steps) assert.match(story, step);
    const order = [
      /the pod is here/,
      /SIGTERM sent/,
      /ended with code/,
      /the sandbox is stopped/,
      /is torn down/,
      /the pod is gone/,
    ];
    const places = order.map((step) => story.search(step));
    assert.deepEqual(
      places,
      [...places].sort((a, b) => a - b),
      story,
    );
    assert.equal(parseAllDocuments(await daemon.gantry('explain', 'pod', 'hello', '-o', 'yaml')).length, 1);
    await leaks.assertNone();
  });

  test('a daemon without pods ends on SIGTERM and leaves no cgroup and no link', async () => {
    assert.equal(await daemon.end('SIGTERM'), 0);
    await bare.assertNone({ only: PROBES_OF_THE_MACHINE });
  });
});
