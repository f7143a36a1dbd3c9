import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKind } from '../../lib/errors.ts';
import { decodeManifest } from './decode.ts';

const POD = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: busybox:1.36
`;

/** The pod with more lines: those of a container with four spaces, those of the specification with two. */
function pod(more: string): string {
  return POD + more;
}

function complaints(text: string | Uint8Array): string[] {
  try {
    decodeManifest(text, 'f.yaml');
  } catch (error) {
    assert.ok(isKind(error, 'InvalidArgument'), String(error));
    return (error as Error).message.split('\n');
  }
  return [];
}

test('a good pod passes, as written', () => {
  const { objects, warnings } = decodeManifest(POD, 'f.yaml');
  assert.deepEqual(warnings, []);
  assert.equal(objects.length, 1);
  assert.equal(objects[0]?.resource, 'pods');
  assert.equal(objects[0].source, 'f.yaml:1');
  assert.deepEqual(objects[0].object, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web' },
    spec: { containers: [{ name: 'main', image: 'busybox:1.36' }] },
  });
});

test('several documents, JSON, and the items of a List', () => {
  const map = (name: string): string => `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${name}"}}`;
  const names = (text: string): unknown[] =>
    decodeManifest(text, 'f.yaml').objects.map(({ object }) => object.metadata.name);
  assert.deepEqual(names(`${POD}---\n---\n${map('a')}\n---\n# nothing\n`), ['web', 'a']);
  assert.deepEqual(names(`{"apiVersion":"v1","kind":"List","items":[${map('a')},${map('b')}]}`), ['a', 'b']);
  assert.deepEqual(complaints(`${POD}---\nkind: ConfigMap\napiVersion: v1\nmetadata: {}\n`), [
    'f.yaml:12: metadata.name: Required value: name or generateName is required',
  ]);
});

test('YAML 1.1: octal modes, booleans, no timestamps, no numbers to the base 60', () => {
  const { objects } = decodeManifest(
    pod(`    env:
    - {name: A, value: 2026-01-01}
    - {name: B, value: 12:30:00}
    tty: yes
  volumes:
  - name: c
    configMap: {name: c, defaultMode: 0400, items: [{key: k, path: p, mode: 0o755}]}
`),
    'f.yaml',
  );
  const { spec } = objects[0]?.object as unknown as { spec: Record<string, unknown> };
  assert.deepEqual(spec['volumes'], [
    { name: 'c', configMap: { name: 'c', defaultMode: 0o400, items: [{ key: 'k', path: 'p', mode: 0o755 }] } },
  ]);
  assert.deepEqual((spec['containers'] as unknown[])[0], {
    name: 'main',
    image: 'busybox:1.36',
    env: [
      { name: 'A', value: '2026-01-01' },
      { name: 'B', value: '12:30:00' },
    ],
    tty: true,
  });
});

const bad: readonly (readonly [what: string, text: string, ...expected: string[]])[] = [
  ['not YAML', 'a: b: c', 'f.yaml:1: not valid YAML: Nested mappings are not allowed in compact mappings'],
  ['a key twice', 'kind: Pod\nkind: Pod\n', 'f.yaml:2: not valid YAML: Map keys must be unique'],
  ['a list', '- 1\n', 'f.yaml:1: <root>: Invalid value: [1]: expected a Kubernetes object, that is a map of fields'],
  ['an empty file', '', 'f.yaml: no Kubernetes objects in it: the file is empty'],
  ['only comments', '# nothing\n', 'f.yaml: no Kubernetes objects in it'],
  ['no kind', 'apiVersion: v1\n', 'f.yaml:1: kind: Required value'],
  ['no apiVersion', 'kind: Namespace\nmetadata: {name: x}\n', 'f.yaml:1: apiVersion: Required value'],
  [
    'a wrong kind',
    'apiVersion: apps/v1\nkind: Deployment\n',
    'f.yaml:2: kind: Unsupported value: "Deployment": supported values: "Pod", "ConfigMap", "Secret", "Event", "Namespace", "Node"',
  ],
  [
    'a kind in the wrong case',
    'apiVersion: v1\nkind: pod\n',
    'f.yaml:2: kind: Unsupported value: "pod": supported values: "Pod", "ConfigMap", "Secret", "Event", "Namespace", "Node" (did you mean "Pod"?)',
  ],
  [
    'a wrong apiVersion',
    POD.replace('v1', 'v2'),
    'f.yaml:1: apiVersion: Unsupported value: "v2": supported values: "v1"',
  ],
  [
    'no name',
    POD.replace('name: web', 'labels: {}'),
    'f.yaml:3: metadata.name: Required value: name or generateName is required',
  ],
  [
    'a bad name',
    POD.replace('web', 'Web_1'),
    "f.yaml:4: metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')",
  ],
  [
    'unknown fields',
    pod('    imagePullPolcy: Never\n  restartpolicy: Never\n  whatever: 1\n'),
    'f.yaml:9: spec.containers[0].imagePullPolcy: unknown field "imagePullPolcy" (did you mean "imagePullPolicy"?)',
    'f.yaml:10: spec.restartpolicy: unknown field "restartpolicy" (did you mean "restartPolicy"?)',
    'f.yaml:11: spec.whatever: unknown field "whatever"',
  ],
  [
    'wrong types',
    pod('    command: sleep 10\n    tty: "yes"\n    ports: [{containerPort: "80"}]\n    env: [{name: A, value: 1}]\n'),
    'f.yaml:9: spec.containers[0].command: Invalid value: "sleep 10": expected a list, got a string',
    'f.yaml:10: spec.containers[0].tty: Invalid value: "yes": expected a boolean (true or false), got a string',
    'f.yaml:11: spec.containers[0].ports[0].containerPort: Invalid value: "80": expected an integer, got a string',
    'f.yaml:12: spec.containers[0].env[0].value: Invalid value: 1: expected a string, got a number',
  ],
  [
    'no containers',
    'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n',
    'f.yaml:4: spec.containers: Required value',
  ],
  [
    'an empty list of containers',
    'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n',
    'f.yaml:4: spec.containers: Required value: a pod needs a container',
  ],
  [
    'a container without name and image',
    'apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - command: [a]\n',
    'f.yaml:6: spec.containers[0].name: Required value',
    'f.yaml:6: spec.containers[0].image: Required value',
  ],
  [
    'two containers of one name',
    pod('  - {name: main, image: x}\n'),
    'f.yaml:9: spec.containers[1].name: Duplicate value: "main"',
  ],
  [
    'a volume that is not defined',
    pod('    volumeMounts: [{name: data, mountPath: /data}]\n'),
    'f.yaml:9: spec.containers[0].volumeMounts[0].name: Not found: "data"',
  ],
  [
    'two mounts at one place',
    pod('    volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}]\n  volumes: [{name: v}]\n'),
    'f.yaml:9: spec.containers[0].volumeMounts[1].mountPath: Duplicate value: "/a"',
  ],
  [
    'a negative grace',
    pod('  terminationGracePeriodSeconds: -1\n'),
    'f.yaml:9: spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0',
  ],
  [
    'bad ports',
    pod('    ports: [{containerPort: 0}, {containerPort: 1, hostPort: 65536}, {containerPort: 2, protocol: tcp}]\n'),
    'f.yaml:9: spec.containers[0].ports[0].containerPort: Invalid value: 0: must be between 1 and 65535, inclusive',
    'f.yaml:9: spec.containers[0].ports[1].hostPort: Invalid value: 65536: must be between 0 and 65535, inclusive',
    'f.yaml:9: spec.containers[0].ports[2].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP"',
  ],
  [
    'one host port twice',
    pod('    ports: [{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80}]\n'),
    'f.yaml:9: spec.containers[0].ports[1].hostPort: Duplicate value: 80',
  ],
  [
    'bad environment',
    pod(
      '    env: [{name: "A=B"}, {name: C, valueFrom: {}}, {name: D, valueFrom: {fieldRef: {fieldPath: status.phase}}}]\n',
    ),
    'f.yaml:9: spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII characters other than \'=\'',
    'f.yaml:9: spec.containers[0].env[1].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`',
    'f.yaml:9: spec.containers[0].env[2].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels[\'<KEY>\']", "metadata.annotations[\'<KEY>\']", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"',
  ],
  [
    'resources',
    pod('    resources: {limits: {cpu: lots, memory: 64Mi, gpu: 1}, requests: {memory: 1Gi}}\n'),
    'f.yaml:9: spec.containers[0].resources.limits.cpu: Invalid value: "lots": must be a quantity such as 500m, 1.5 or 64Mi',
    'f.yaml:9: spec.containers[0].resources.limits.gpu: Unsupported value: "gpu": supported values: "cpu", "memory"',
    'f.yaml:9: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than or equal to memory limit of 64Mi',
  ],
  [
    'what is not supported, by name',
    pod(
      '    livenessProbe: {exec: {command: [x]}}\n  initContainers: [{name: i, image: x}]\n  readinessGates: [{conditionType: x}]\n',
    ),
    'f.yaml:9: spec.containers[0].livenessProbe: Forbidden: not supported by Gantry: probes',
    'f.yaml:10: spec.initContainers: Forbidden: not supported by Gantry: init containers and sidecars',
    'f.yaml:11: spec.readinessGates: Forbidden: not supported by Gantry: readiness gates',
  ],
  [
    'volumes of other kinds, and two kinds at once',
    pod(
      '  volumes: [{name: a, persistentVolumeClaim: {claimName: x}}, {name: b, emptyDir: {}, hostPath: {path: /x}}]\n',
    ),
    'f.yaml:9: spec.volumes[0].persistentVolumeClaim: Forbidden: not supported by Gantry: volumes of this kind; supported are emptyDir, hostPath, configMap, secret and image',
    'f.yaml:9: spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type',
  ],
  [
    'a sysctl of the host',
    pod('  securityContext: {sysctls: [{name: kernel.panic, value: "1"}]}\n'),
    'f.yaml:9: spec.securityContext.sysctls[0].name: Forbidden: kernel.panic is not namespaced: it would change the host',
  ],
  [
    'Bidirectional without privilege',
    pod('    volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]\n  volumes: [{name: v}]\n'),
    'f.yaml:9: spec.containers[0].volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers',
  ],
  [
    'bad data',
    'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  a/b: YQ==\n  c: "not base64!"\n',
    "f.yaml:5: data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', or 'KEY_NAME', or 'key-name')",
    'f.yaml:6: data.c: Invalid value: "<contents redacted>": must be base64',
  ],
];

for (const [what, text, ...expected] of bad) {
  test(`refused: ${what}`, () => assert.deepEqual(complaints(text), expected));
}

test('refused: binary, too large, a bomb of aliases', () => {
  assert.deepEqual(complaints(new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2])), ['f.yaml: not a text file']);
  assert.deepEqual(complaints(new Uint8Array([0xff, 0xfe, 0x41])), ['f.yaml: not a text file (not valid UTF-8)']);
  assert.deepEqual(complaints('#'.repeat(2 * 1024 * 1024)), [
    'f.yaml: too large: 2097152 bytes, where 1572864 (1.5 MiB) is the most that is accepted',
  ]);
  const level = (name: string, of: string): string => `${name}: &${name} [${`*${of},`.repeat(20)}]\n`;
  assert.match(
    complaints(`a: &a [x]\n${level('b', 'a')}${level('c', 'b')}${level('d', 'c')}${level('e', 'd')}`)[0] ?? '',
    /f\.yaml:1: not valid YAML: .*alias/,
  );
});

test('what is harmless to ignore is named in warnings', () => {
  const { warnings } = decodeManifest(
    pod(`    terminationMessagePath: /x
  nodeSelector: {disk: ssd}
  priorityClassName: high
  schedulerName: default-scheduler
  serviceAccountName: default
status: {phase: Running}
`),
    'f.yaml',
  );
  assert.deepEqual(warnings, [
    'f.yaml:9: spec.containers[0].terminationMessagePath: ignored by Gantry: termination messages are not read',
    'f.yaml:10: spec.nodeSelector: ignored by Gantry: there is one node, and nothing to schedule',
    'f.yaml:11: spec.priorityClassName: ignored by Gantry: there is one node, and nothing to schedule',
    'f.yaml:14: status: ignored: only what runs the object writes it',
  ]);
  const { warnings: odd } = decodeManifest(
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  on: "1"\n',
    'f',
  );
  assert.deepEqual(odd, ['f:5: the key on is not text in YAML 1.1; put it in quotes']);
});

test('empty values of fields that are not supported ask for nothing', () => {
  const { warnings } = decodeManifest(
    pod(
      '    volumeMounts: [{name: v, mountPath: /v, subPath: ""}]\n  volumes: [{name: v}]\n  initContainers: []\n  hostUsers: true\n  affinity: null\n',
    ),
    'f.yaml',
  );
  assert.deepEqual(warnings, []);
});
