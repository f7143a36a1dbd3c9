import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ErrorKind } from '../../lib/errors.ts';
import { classifyRuntimeError, runtimeWords } from './runtime-error.ts';

/** As crun 1.8.1 and runc 1.1.5 said it. */
const SEEN: readonly (readonly [string, ErrorKind])[] = [
  ['time="2026-11-21T11:28:25Z" level=error msg="container does not exist"', 'NotFound'],
  ['error opening file `/run/x/t3/status`: No such file or directory', 'NotFound'],
  ["cannot open directory '/run/x/t3': No such file or directory", 'NotFound'],
  [
    '{"msg":"executable file `nosuch` not found in $PATH: No such file or directory","level":"error","time":"x"}',
    'NotFound',
  ],
  [
    'runc create failed: unable to start container process: exec: "nosuch": executable file not found in $PATH\n',
    'NotFound',
  ],
  [
    'runc create failed: unable to start container process: exec: "/nosuch": stat /nosuch: no such file or directory',
    'NotFound',
  ],
  ['open executable: Operation not permitted', 'PermissionDenied'],
  ['runc create failed: unable to start container process: exec: "/etc": permission denied', 'PermissionDenied'],
  ['unknown version specified', 'InvalidArgument'],
  ['write /sys/fs/cgroup/memory/x/cgroup.procs: no space left on device', 'ResourceExhausted'],
  ['cgroups in hybrid mode not supported, drop all controllers from cgroupv2', 'Internal'],
];

for (const [words, kind] of SEEN) {
  test(`${kind}: ${words.slice(0, 60)}`, () => {
    assert.equal(classifyRuntimeError('runc', 'create', words).kind, kind);
  });
}

test('a mount source that is missing is not a missing command', () => {
  const words =
    'runc create failed: unable to start container process: error mounting "/no/such" to rootfs at "/x": stat /no/such: no such file or directory';
  assert.equal(classifyRuntimeError('runc', 'create', words).kind, 'Internal');
});

test('the words alone are kept, each once, without debug lines', () => {
  const output = [
    '{"level":"debug","msg":"nothing"}',
    '{"level":"error","msg":"it \\"broke\\""}',
    'time="x" level=warning msg="careful"',
    'time="x" level=error msg="it \\"broke\\""',
    '{"level":"err',
  ].join('\n');
  assert.equal(runtimeWords(output), 'it "broke"; {"level":"err');
});
