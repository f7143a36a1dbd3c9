import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkObject } from './check-object.ts';
import { applyDefaults } from './defaults.ts';
import { renderIssue } from './issue.ts';
import { closest } from './suggest.ts';
import { dataKey, dnsLabel, envName, labelValue, localPath, portName, qualifiedName, signalName } from './names.ts';
import type { Check } from './names.ts';
import type { New, Pod, PodSpec } from '../objects.ts';

function specIssues(spec: unknown): string[] {
  const { issues } = checkObject({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec });
  return issues.map(renderIssue);
}

function defaulted(spec: Partial<PodSpec>): PodSpec {
  const pod: New<Pod> = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers: [], ...spec } };
  applyDefaults(pod);
  return pod.spec;
}

test('never throws, whatever it is given', () => {
  fc.assert(
    fc.property(fc.anything(), fc.anything(), fc.anything(), (anything, spec, metadata) => {
      checkObject(anything);
      for (const kind of ['Pod', 'ConfigMap', 'Secret', 'Event', 'Namespace', 'Node']) {
        checkObject({ apiVersion: 'v1', kind, metadata, spec, data: anything });
        checkObject({
          apiVersion: 'v1',
          kind,
          metadata: { name: 'x' },
          spec: { containers: [anything], volumes: [spec] },
        });
      }
    }),
  );
});

test('a nesting bomb is a complaint, not a stack overflow', () => {
  let bomb: unknown = 1;
  for (let depth = 0; depth < 100_000; depth++) bomb = { a: bomb };
  assert.ok(checkObject({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' }, spec: bomb }).issues.length > 0);
});

test('what defaults add is valid, and adding them again changes nothing', () => {
  const spec = defaulted({
    hostNetwork: true,
    containers: [
      {
        name: 'a',
        image: 'x',
        ports: [{ containerPort: 80 }],
        env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
        resources: { limits: { cpu: '1' } },
      },
    ],
    volumes: [{ name: 'e' }, { name: 'c', configMap: { name: 'c' } }, { name: 's', secret: { secretName: 's' } }],
  });
  assert.deepEqual(specIssues(spec), []);
  assert.deepEqual(defaulted(structuredClone(spec)), spec);
  assert.equal(spec.terminationGracePeriodSeconds, 30);
  assert.equal(spec.restartPolicy, 'Always');
  assert.equal(spec.dnsPolicy, 'ClusterFirst');
  assert.deepEqual(spec.volumes, [
    { name: 'e', emptyDir: {} },
    { name: 'c', configMap: { name: 'c', defaultMode: 0o644 } },
    { name: 's', secret: { secretName: 's', defaultMode: 0o644 } },
  ]);
  assert.deepEqual(spec.containers[0]?.ports, [{ containerPort: 80, hostPort: 80, protocol: 'TCP' }]);
  assert.deepEqual(spec.containers[0].resources, { limits: { cpu: '1' }, requests: { cpu: '1' } });
});

test('the pull policy goes by the tag', () => {
  const policies: Record<string, string> = {
    busybox: 'Always',
    'busybox:latest': 'Always',
    'busybox:1': 'IfNotPresent',
    'host:5000/busybox': 'Always',
    'host:5000/busybox:1': 'IfNotPresent',
    'busybox@sha256:abc': 'IfNotPresent',
  };
  for (const [image, policy] of Object.entries(policies)) {
    assert.equal(defaulted({ containers: [{ name: 'a', image }] }).containers[0]?.imagePullPolicy, policy, image);
  }
});

test('rules between fields', () => {
  const with1 = (container: object, spec: object = {}): string[] =>
    specIssues({ containers: [{ name: 'a', image: 'x', ...container }], ...spec });
  assert.deepEqual(with1({ lifecycle: { preStop: { exec: {} } } }), [
    'spec.containers[0].lifecycle.preStop.exec.command: Required value',
  ]);
  assert.deepEqual(with1({ lifecycle: { preStop: { sleep: { seconds: 40 } } } }), [
    'spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: 40: must be less than or equal to terminationGracePeriodSeconds (30)',
  ]);
  assert.deepEqual(with1({ lifecycle: { stopSignal: 'TERM' } }), [
    'spec.containers[0].lifecycle.stopSignal: Invalid value: "TERM": must be the name of a signal, such as SIGTERM or SIGRTMIN+3',
  ]);
  assert.deepEqual(with1({ securityContext: { privileged: true, allowPrivilegeEscalation: false } }), [
    'spec.containers[0].securityContext: Invalid value: "": cannot set `allowPrivilegeEscalation` to false and `privileged` to true',
  ]);
  assert.deepEqual(with1({ ports: [{ containerPort: 80, hostPort: 81 }] }, { hostNetwork: true }), [
    'spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true',
  ]);
  assert.deepEqual(with1({}, { dnsPolicy: 'None' }), [
    'spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None',
  ]);
  assert.deepEqual(with1({}, { shareProcessNamespace: true, hostPID: true }), [
    'spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled',
  ]);
  assert.deepEqual(with1({ lifecycle: { postStart: { sleep: {} } } }, { securityContext: { fsGroup: 0 } }), [
    'spec.containers[0].lifecycle.postStart: Forbidden: not supported by Gantry: hooks after the start',
    'spec.securityContext.fsGroup: Forbidden: not supported by Gantry: changing the group of volumes',
  ]);
});

test('a /proc without masks is for pods with users of their own', () => {
  const of = (procMount: string, hostUsers?: boolean): string[] =>
    specIssues({
      ...(hostUsers === undefined ? {} : { hostUsers }),
      containers: [{ name: 'a', image: 'x', securityContext: { procMount } }],
    });
  assert.deepEqual(of('Unmasked', false), []);
  assert.deepEqual(of('Default', true), []);
  const at = 'spec.containers[0].securityContext.procMount';
  for (const hostUsers of [true, undefined])
    assert.deepEqual(of('Unmasked', hostUsers), [`${at}: Invalid value: "Unmasked": needs \`hostUsers: false\``]);
  assert.deepEqual(of('None'), [`${at}: Unsupported value: "None": supported values: "Default", "Unmasked"`]);
});

test('what is mounted read-only all the way down is read-only, and nothing comes or goes below it', () => {
  const of = (mount: object): string[] =>
    specIssues({
      containers: [{ name: 'a', image: 'x', volumeMounts: [{ name: 'v', mountPath: '/v', ...mount }] }],
      volumes: [{ name: 'v', emptyDir: {} }],
    });
  const at = 'spec.containers[0].volumeMounts[0].recursiveReadOnly';
  for (const recursiveReadOnly of ['IfPossible', 'Enabled']) {
    assert.deepEqual(of({ recursiveReadOnly, readOnly: true }), []);
    assert.deepEqual(of({ recursiveReadOnly, readOnly: true, mountPropagation: 'None' }), []);
    assert.deepEqual(of({ recursiveReadOnly }), [`${at}: Forbidden: needs \`readOnly: true\``]);
    assert.deepEqual(of({ recursiveReadOnly, readOnly: true, mountPropagation: 'HostToContainer' }), [
      `${at}: Forbidden: needs a \`mountPropagation\` of None`,
    ]);
  }
  assert.deepEqual(of({ recursiveReadOnly: 'Disabled', mountPropagation: 'HostToContainer' }), []);
  assert.deepEqual(of({ recursiveReadOnly: 'Always' }), [
    `${at}: Unsupported value: "Always": supported values: "Disabled", "IfPossible", "Enabled"`,
  ]);
});

test('groups of the image are merged or left out', () => {
  const of = (supplementalGroupsPolicy: string): string[] =>
    specIssues({ securityContext: { supplementalGroupsPolicy }, containers: [{ name: 'a', image: 'x' }] });
  assert.deepEqual([...of('Merge'), ...of('Strict')], []);
  assert.deepEqual(of('None'), [
    'spec.securityContext.supplementalGroupsPolicy: Unsupported value: "None": supported values: "Merge", "Strict"',
  ]);
});

test('a pod with users of its own has no namespace of the host, and only users that it knows', () => {
  const of = (spec: object, securityContext: object = {}): string[] =>
    specIssues({ containers: [{ name: 'a', image: 'x', securityContext }], ...spec });
  assert.deepEqual(of({ hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true }), [
    'spec.hostNetwork: Forbidden: when `hostUsers` is false',
    'spec.hostPID: Forbidden: when `hostUsers` is false',
    'spec.hostIPC: Forbidden: when `hostUsers` is false',
  ]);
  assert.deepEqual(of({ hostUsers: true, hostNetwork: true, securityContext: { runAsUser: 70_000 } }), []);
  const why = 'must be 65535 or less when `hostUsers` is false';
  assert.deepEqual(
    of(
      { hostUsers: false, securityContext: { runAsUser: 65_536, runAsGroup: 65_535, supplementalGroups: [1, 70_000] } },
      { runAsUser: 0, runAsGroup: 66_000 },
    ),
    [
      `spec.securityContext.runAsUser: Invalid value: 65536: ${why}`,
      `spec.securityContext.supplementalGroups[1]: Invalid value: 70000: ${why}`,
      `spec.containers[0].securityContext.runAsGroup: Invalid value: 66000: ${why}`,
    ],
  );
});

test('an image as a volume', () => {
  const of = (image: object, mount: object = {}, more: object[] = []): string[] =>
    specIssues({
      containers: [{ name: 'a', image: 'x', volumeMounts: [{ name: 'v', mountPath: '/v', ...mount }] }],
      volumes: [{ name: 'v', image }, ...more],
    });
  const at = 'spec.volumes[0].image';
  assert.deepEqual(of({ reference: 'x', pullPolicy: 'Never' }, { subPath: 'a/b', readOnly: false }), []);
  assert.deepEqual(of({}), [`${at}.reference: Required value`]);
  assert.deepEqual(of({ reference: 'x ', pullPolicy: 'Often' }), [
    `${at}.reference: Invalid value: "x ": must not have leading or trailing whitespace`,
    `${at}.pullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"`,
  ]);
  const path = 'spec.containers[0].volumeMounts[0].subPath';
  assert.deepEqual(of({ reference: 'x' }, { subPath: '/a' }), [
    `${path}: Invalid value: "/a": must be a relative path`,
  ]);
  assert.deepEqual(of({ reference: 'x' }, { subPath: 'a/../..' }), [
    `${path}: Invalid value: "a/../..": must not contain '..'`,
  ]);
  assert.deepEqual(of({ reference: 'x' }, { name: 'e', subPath: 'a' }, [{ name: 'e', emptyDir: {} }]), [
    `${path}: Forbidden: not supported by Gantry: mounting a part of a volume that is no image`,
  ]);
  const { volumes } = defaulted({
    containers: [{ name: 'a', image: 'x' }],
    volumes: [
      { name: 'a', image: { reference: 'x' } },
      { name: 'b', image: { reference: 'x:1' } },
    ],
  });
  assert.deepEqual(
    volumes?.map(({ image }) => image?.pullPolicy),
    ['Always', 'IfNotPresent'],
  );
});

test('profiles of seccomp and AppArmor: a name with the type Localhost, and only with it', () => {
  const of = (securityContext: object): string[][] => [
    specIssues({ containers: [{ name: 'a', image: 'x' }], securityContext }).map((issue) =>
      issue.replace('spec.securityContext.', ''),
    ),
    specIssues({ containers: [{ name: 'a', image: 'x', securityContext }] }).map((issue) =>
      issue.replace('spec.containers[0].securityContext.', ''),
    ),
  ];
  const table: [context: object, ...issues: string[]][] = [
    [{ seccompProfile: { type: 'Localhost', localhostProfile: 'a/b.json' }, appArmorProfile: { type: 'Unconfined' } }],
    [{ appArmorProfile: { type: 'Localhost', localhostProfile: 'k8s-deny write' } }],
    [
      { seccompProfile: { type: 'Localhost' }, appArmorProfile: { type: 'Localhost', localhostProfile: ' ' } },
      'seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost',
      'appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost',
    ],
    [
      { seccompProfile: { type: 'Localhost', localhostProfile: '../a' } },
      'seccompProfile.localhostProfile: Invalid value: "../a": must not contain \'..\'',
    ],
    [
      { seccompProfile: { type: 'RuntimeDefault', localhostProfile: 'a' } },
      'seccompProfile.localhostProfile: Invalid value: "a": can only be set when seccomp type is Localhost',
    ],
    [
      { appArmorProfile: { type: 'Localhost', localhostProfile: ' a' } },
      'appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace',
    ],
    [
      { appArmorProfile: { type: 'None' } },
      'appArmorProfile.type: Unsupported value: "None": supported values: "Localhost", "RuntimeDefault", "Unconfined"',
    ],
  ];
  for (const [context, ...issues] of table) {
    for (const said of of(context)) assert.deepEqual(said, issues, JSON.stringify(context));
  }
});

test('huge pages: whole ones, the same asked for as limited, and not alone', () => {
  const of = (resources: object): string[] =>
    specIssues({ containers: [{ name: 'a', image: 'x', resources }] }).map((issue) =>
      issue.replace('spec.containers[0].', ''),
    );
  const memory = '64Mi';
  assert.deepEqual(of({ limits: { memory, 'hugepages-2Mi': '4Mi' } }), []);
  assert.deepEqual(of({ requests: { memory, 'hugepages-2Mi': '4Mi' }, limits: { 'hugepages-2Mi': '4096Ki' } }), []);
  assert.deepEqual(of({ limits: { 'hugepages-2Mi': '4Mi' } }), [
    'resources: Forbidden: HugePages require cpu or memory',
  ]);
  assert.deepEqual(of({ limits: { memory, 'hugepages-2Mi': '3Mi' } }), [
    'resources.limits.hugepages-2Mi: Invalid value: "3Mi": must be a multiple of the page size of hugepages-2Mi',
  ]);
  assert.deepEqual(of({ limits: { memory, 'hugepages-2Mi': '4Mi' }, requests: { 'hugepages-2Mi': '2Mi' } }), [
    'resources.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi',
  ]);
  assert.deepEqual(of({ requests: { memory, 'hugepages-1Gi': '1Gi' } }), [
    'resources.limits.hugepages-1Gi: Required value: Limit must be set for non overcommitable resources',
  ]);
  assert.match(of({ limits: { memory, 'hugepages-x': '1' } }).join(), /limits\.hugepages-x: Unsupported value/);
  const medium = (text: string): string[] =>
    specIssues({ containers: [{ name: 'a', image: 'x' }], volumes: [{ name: 'v', emptyDir: { medium: text } }] });
  for (const good of ['', 'Memory', 'HugePages', 'HugePages-1Gi']) assert.deepEqual(medium(good), [], good);
  assert.match(medium('Huge').join(), /emptyDir\.medium: Invalid value: "Huge": must be one of/);
});

test('values of fields and resources in the environment', () => {
  const of = (valueFrom: object): string[] =>
    specIssues({ containers: [{ name: 'a', image: 'x', env: [{ name: 'E', valueFrom }] }] });
  const fields = [
    'spec.serviceAccountName',
    'status.hostIP',
    'status.hostIPs',
    'status.podIPs',
    "metadata.labels['a/b']",
  ];
  for (const fieldPath of fields) assert.deepEqual(of({ fieldRef: { fieldPath } }), [], fieldPath);
  const good: [resource: string, divisor?: string | number][] = [
    ['limits.cpu'],
    ['limits.cpu', '0'],
    ['requests.cpu', '1m'],
    ['requests.cpu', 1],
    ['requests.cpu', '1000m'],
    ['limits.memory', '1Mi'],
    ['limits.memory', '1024Ki'],
    ['requests.memory', '1G'],
    ['limits.ephemeral-storage', '1Gi'],
    ['requests.ephemeral-storage'],
  ];
  for (const [resource, divisor] of good) {
    assert.deepEqual(
      of({ resourceFieldRef: { resource, ...(divisor === undefined ? {} : { divisor }) } }),
      [],
      `${resource} ${divisor ?? ''}`,
    );
  }
  const at = 'spec.containers[0].env[0].valueFrom.resourceFieldRef';
  const bad: [resource: string, divisor: string | undefined, issue: RegExp][] = [
    ['', undefined, /\.resource: Required value$/],
    ['limits.disk', undefined, /\.resource: Unsupported value: "limits\.disk": supported values: "limits\.cpu"/],
    ['limits.hugepages-2Mi', undefined, /\.resource: Unsupported value/],
    ['limits.cpu', '2', /\.divisor: Invalid value: "2": must be one of 1m, 1 for cpu$/],
    ['limits.cpu', '1k', /\.divisor: Invalid value: "1k"/],
    ['limits.memory', '1m', /\.divisor: Invalid value: "1m": must be one of 1, 1k, 1M, .*, 1Ei for memory$/],
    ['limits.memory', '1048576', /\.divisor: Invalid value: "1048576"/],
    ['requests.ephemeral-storage', '3Mi', /\.divisor: Invalid value: "3Mi": .* for ephemeral-storage$/],
    ['limits.memory', '-1', /\.divisor: Invalid value: "-1"/],
    ['limits.memory', 'some', /\.divisor: Invalid value: "some": must be a quantity/],
  ];
  for (const [resource, divisor, issue] of bad) {
    const [said = '', ...more] = of({ resourceFieldRef: { resource, ...(divisor === undefined ? {} : { divisor }) } });
    assert.deepEqual(more, [], resource);
    assert.ok(said.startsWith(at), said);
    assert.match(said, issue);
  }
});

test('what is refused is named once, and not called missing as well', () => {
  const container = (fields: object): string[] => specIssues({ containers: [{ name: 'a', image: 'x', ...fields }] });
  assert.deepEqual(container({ env: [{ name: 'E', valueFrom: { fileKeyRef: { path: 'x' } } }] }), [
    'spec.containers[0].env[0].valueFrom.fileKeyRef: Forbidden: not supported by Gantry: environment from files of a volume',
  ]);
  assert.deepEqual(container({ env: [{ name: 'E', valueFrom: { configMapRef: { name: 'x' } } }] }), [
    'spec.containers[0].env[0].valueFrom.configMapRef: unknown field "configMapRef"',
  ]);
  assert.deepEqual(container({ lifecycle: { preStop: { httpGet: { port: 80 } } } }), [
    'spec.containers[0].lifecycle.preStop.httpGet: Forbidden: not supported by Gantry: hooks over HTTP; use exec',
  ]);
});

test('unknown fields are dropped or warned of where the client asks for it', () => {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c', x: 1 }, data: {} };
  const dropped = checkObject(object, 'drop');
  assert.deepEqual([dropped.issues, dropped.warnings, dropped.object.metadata], [[], [], { name: 'c' }]);
  assert.deepEqual(checkObject(object, 'warn').warnings.map(renderIssue), ['metadata.x: unknown field "x"']);
});

test('__proto__ is a field like any other', () => {
  const object: unknown = JSON.parse(
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"__proto__":"x"}}',
  );
  const { object: checked, issues } = checkObject(object);
  assert.deepEqual(issues, []);
  assert.equal(JSON.stringify((checked as { data?: unknown }).data), '{"__proto__":"x"}');
});

const names: readonly (readonly [Check, good: readonly string[], wrong: readonly string[]])[] = [
  [dnsLabel, ['a', 'a-b', '1'], ['', 'A', 'a.b', '-a', 'a-', 'a_b', 'x'.repeat(64)]],
  [qualifiedName, ['app', 'a.b/c_d', 'A'], ['', '/a', 'a/', 'a/b/c', 'A_/x', '-a']],
  [labelValue, ['', 'a', 'A.b_c'], ['a b', '-a', 'x'.repeat(64)]],
  [portName, ['http', 'a-1'], ['', '80', 'HTTP', 'a--b', '-a', 'averyveryverylong']],
  [envName, ['A', 'a.b', 'a b'], ['', 'A=B', 'ä', 'a\n']],
  [dataKey, ['a', '.a', 'a..b'], ['', '.', '..', '..a', 'a/b', 'a b']],
  [localPath, ['a', 'a/b', 'a..b'], ['/a', '..', 'a/../b', '../a']],
  [signalName, ['SIGTERM', 'SIGRTMIN', 'SIGRTMIN+15', 'SIGRTMAX-14'], ['TERM', '15', 'SIGRTMIN+16', 'SIGRTMIN+0', '']],
];
test('names', () => {
  for (const [check, good, wrong] of names) {
    for (const value of good) assert.equal(check(value), undefined, value);
    for (const value of wrong) assert.notEqual(check(value), undefined, value);
  }
});

test('suggestions are near', () => {
  const known = ['image', 'imagePullPolicy', 'name', 'env', 'envFrom'];
  assert.equal(closest('imag', known), 'image');
  assert.equal(closest('imagepullpolicy', known), 'imagePullPolicy');
  assert.equal(closest('nmae', known), 'name');
  assert.equal(closest('command', known), undefined);
  assert.equal(closest('x'.repeat(1000), known), undefined);
});
