import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PodStreamRequest } from './pod-streams.ts';
import { parseStreamRequest, streamQuery } from './stream-query.ts';

const POD = { namespace: 'default', name: 'web' };

const container = fc.option(fc.string({ minLength: 1 }), { nil: undefined });
const streams = fc
  .record({ stdin: fc.boolean(), stdout: fc.boolean(), stderr: fc.boolean(), tty: fc.boolean() })
  .filter(({ stdin, stdout, stderr, tty }) => (stdin || stdout || stderr) && !(tty && stderr));
const named = fc.record({ container, streams }).map((each) => ({
  ...POD,
  ...each.streams,
  ...(each.container === undefined ? {} : { container: each.container }),
}));
const requests: fc.Arbitrary<PodStreamRequest> = fc.oneof(
  fc.record({ named, command: fc.array(fc.string(), { minLength: 1 }) }).map((each) => ({
    kind: 'exec' as const,
    ...each.named,
    command: each.command,
  })),
  named.map((each) => ({ kind: 'attach' as const, ...each })),
  fc
    .array(fc.integer({ min: 1, max: 65_535 }), { minLength: 1 })
    .map((ports) => ({ kind: 'portforward' as const, ...POD, ports })),
);

test('what our client says is what the API understands', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const sent = new URLSearchParams(streamQuery(request).toString());
      assert.deepEqual(parseStreamRequest(request.kind, POD, sent), request);
    }),
  );
});

for (const [query, streams] of [
  // As kubectl says it: what is false is left out.
  ['stdin=true&stdout=true&tty=true', { stdin: true, stdout: true, stderr: false, tty: true }],
  ['stderr=true&stdout=true', { stdin: false, stdout: true, stderr: true, tty: false }],
  ['', { stdin: false, stdout: true, stderr: true, tty: false }],
  ['stdin=1&stdout=0&stderr=False', { stdin: true, stdout: false, stderr: false, tty: false }],
  ['tty=true&stderr=true', { stdin: false, stdout: true, stderr: false, tty: true }],
] as const) {
  test(`attach?${query}`, () => {
    const request = parseStreamRequest('attach', POD, new URLSearchParams(query));
    assert.deepEqual(request, { kind: 'attach', ...POD, ...streams });
  });
}

test('exec: the words of the command in their order, empty ones and all', () => {
  const query = new URLSearchParams('command=sh&command=-c&command=&container=main&stdout=true');
  const request = parseStreamRequest('exec', POD, query);
  assert.ok(request.kind === 'exec');
  assert.deepEqual([request.command, request.container], [['sh', '-c', ''], 'main']);
});

test('port-forward: ports are only named by those who want a channel each', () => {
  assert.deepEqual(parseStreamRequest('portforward', POD, new URLSearchParams()), { kind: 'portforward', ...POD });
  const several = parseStreamRequest('portforward', POD, new URLSearchParams('ports=80,443&ports=8080'));
  assert.deepEqual(several, { kind: 'portforward', ...POD, ports: [80, 443, 8080] });
});

for (const [kind, query, message] of [
  ['exec', 'stdout=true', /at least one command/],
  ['attach', 'stdout=false&stderr=false', /at least 1 of stdin, stdout, stderr/],
  ['attach', 'stdout=false&tty=true', /at least 1 of stdin, stdout, stderr/],
  ['portforward', 'ports=0', /"0" is not a valid port/],
  ['portforward', 'ports=80,', /"" is not a valid port/],
  ['portforward', 'ports=65536', /"65536" is not a valid port/],
] as const) {
  test(`${kind}?${query} is a bad request`, () => {
    assert.throws(() => parseStreamRequest(kind, POD, new URLSearchParams(query)), {
      kind: 'InvalidArgument',
      message,
    });
  });
}
