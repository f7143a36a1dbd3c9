/* eslint-disable @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-call --
   answers of every shape are looked into here, and a field that is not there fails its test */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { GantryError, isKind, notFound } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import type { ApiConnection, GantryExtensions, PodSubresources } from '../gantry-extensions.ts';
import { connectApi } from '../http/connect.ts';
import type { PodMetrics } from '../pod-metrics.ts';
import { examplePod, openFakeApi, type FakeApi } from './fake-api.ts';
import { serveApi, type ApiServer } from './server.ts';

interface Answer {
  readonly code: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- see above
  readonly json: any;
}

const asked: unknown[] = [];

const pods: PodSubresources = {
  async *logs(_op, options) {
    asked.push(options);
    if (options.name === 'none') throw notFound('pod none not found');
    yield Buffer.from('one\n');
    await Promise.resolve();
    yield Buffer.from('two\n');
  },
};

const image = { id: 'sha256:1', tags: ['a:1'], digests: [], sizeBytes: 1 };

const metrics: PodMetrics = {
  kind: 'PodMetrics',
  apiVersion: 'metrics.k8s.io/v1beta1',
  metadata: { name: 'web', namespace: 'default', creationTimestamp: '2026-01-01T00:00:00.000Z' },
  timestamp: '2026-01-01T00:00:00.000Z',
  window: '10s',
  containers: [{ name: 'main', usage: { cpu: '5n', memory: '8Ki' } }],
};

const extensions: GantryExtensions = {
  explain: (_op, request) => {
    asked.push(request);
    return Promise.resolve({ uid: 'u', entries: [], objects: [], pending: [{ what: 'volume', message: 'blocked' }] });
  },
  explainContainer: (_op, request) => {
    asked.push(request);
    return Promise.resolve({ entries: [], objects: [], pending: [] });
  },
  podMetrics: (_op, request) => {
    asked.push(request);
    if (request.name === 'idle') return Promise.reject(notFound('nothing is known of pod idle'));
    return Promise.resolve([metrics]);
  },
  doctor: (_op, { fix }) => Promise.resolve({ instanceId: fix ? 'fixed' : 'looked', findings: [], notices: [] }),
  stop: (_op, request) => {
    if (request.container === 'gone') return Promise.reject(new GantryError('FailedPrecondition', 'not running'));
    return Promise.resolve({ containerId: 'c', pod: 'web', container: request.container });
  },
  listImages: () => Promise.resolve([image]),
  async *pullImage(_op, { reference }) {
    await Promise.resolve();
    yield { kind: 'progress', item: 'layer', status: 'downloading', doneBytes: 1, totalBytes: 2 };
    if (reference === 'bad') throw new GantryError('Unauthenticated', 'no credentials');
    yield { kind: 'done', image };
  },
  async *importImage(_op, request) {
    asked.push(request);
    await Promise.resolve();
    yield { kind: 'done', image };
  },
  inspectImage: (_op, reference) =>
    reference === 'gone'
      ? Promise.reject(notFound('image gone is not here'))
      : Promise.resolve({ ...image, storedAt: '2026-01-01T00:00:00Z', layers: [], config: { reference } }),
  removeImage: (_op, reference, options) =>
    Promise.resolve(options?.force === true ? [reference, 'forced'] : [reference]),
};

describe('the API over a socket', () => {
  let folder: string;
  let api: FakeApi;
  let server: ApiServer;
  let client: ApiConnection;
  let socket: string;
  let notReady: string | undefined;
  const POD_PATH = '/api/v1/namespaces/default/pods';

  before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'gantry-api-'));
    socket = path.join(folder, 'api.sock');
    // A stale file of a killed process is in the way.
    await writeFile(socket, '');
    api = await openFakeApi();
    server = await serveApi({
      registry: api.registry,
      clock: api.clock,
      log: silentLog,
      listen: [`unix://${socket}`, 'http://127.0.0.1:0'],
      version: '0.1.0',
      pods,
      extensions,
      notReady: () => notReady,
    });
    client = await connectApi(`unix://${socket}`);
  });

  after(async () => {
    await client.close();
    await server.close();
    api.close();
    assert.deepEqual(await readdir(folder), []);
    await rm(folder, { recursive: true });
  });

  function ask(
    method: string,
    url: string,
    body?: unknown,
    headers: Record<string, string> = {},
    where: http.RequestOptions = { socketPath: socket },
  ): Promise<Answer> {
    const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    // Node sends the body of a DELETE without saying how long it is.
    const length = method === 'DELETE' && payload !== undefined ? { 'content-length': Buffer.byteLength(payload) } : {};
    return new Promise((resolve, reject) => {
      const request = http.request({ ...where, method, path: url, headers: { ...length, ...headers } }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          let json: unknown;
          try {
            json = JSON.parse(text);
          } catch {
            json = undefined;
          }
          resolve({ code: response.statusCode ?? 0, headers: response.headers, text, json });
        });
      });
      request.on('error', reject);
      request.end(payload);
    });
  }

  test('the socket is root’s alone', async () => {
    assert.equal((await stat(socket)).mode & 0o777, 0o600);
    assert.deepEqual(await readdir(folder), ['api.sock']);
  });

  test('a socket that is served already is left alone', async () => {
    const config = { registry: api.registry, clock: api.clock, log: silentLog, version: '0' };
    await assert.rejects(serveApi({ ...config, listen: [`unix://${socket}`] }), (error) =>
      isKind(error, 'AlreadyExists'),
    );
    assert.equal((await ask('GET', '/healthz')).text, 'ok');
    for (const listen of [
      'http://0.0.0.0:80',
      'http://example.com:80',
      'unix://x',
      'x',
      `unix:///${'x'.repeat(100)}`,
    ]) {
      await assert.rejects(
        serveApi({ ...config, listen: [listen] }),
        (error) => isKind(error, 'InvalidArgument'),
        listen,
      );
    }
    const missing = path.join(folder, 'none', 'api.sock');
    await assert.rejects(serveApi({ ...config, listen: [`unix://${missing}`] }), /cannot make the socket/);
  });

  test('not ready is a Status that says why, while objects are served', async () => {
    notReady = 'the cook is still asleep';
    try {
      const { code, json } = await ask('GET', '/readyz');
      assert.deepEqual(
        [code, json.kind, json.reason, json.message],
        [503, 'Status', 'ServiceUnavailable', 'the cook is still asleep'],
      );
      for (const url of ['/healthz', '/livez', POD_PATH]) assert.equal((await ask('GET', url)).code, 200, url);
    } finally {
      notReady = undefined;
    }
    assert.equal((await ask('GET', '/readyz')).text, 'ok');
  });

  test('health, version, discovery', async () => {
    for (const url of ['/healthz', '/livez', '/readyz']) assert.equal((await ask('GET', url)).text, 'ok');
    assert.match((await ask('GET', '/version')).json.gitVersion as string, /^v1\.\d+\.0\+gantry-0\.1\.0$/);
    assert.deepEqual((await ask('GET', '/api')).json.versions, ['v1']);
    const version = { groupVersion: 'metrics.k8s.io/v1beta1', version: 'v1beta1' };
    assert.deepEqual((await ask('GET', '/apis')).json.groups, [
      { name: 'metrics.k8s.io', versions: [version], preferredVersion: version },
    ]);
    const { resources } = (await ask('GET', '/api/v1')).json as { resources: { name: string; verbs: string[] }[] };
    assert.deepEqual(
      resources.map(({ name }) => name),
      [
        'pods',
        'pods/status',
        'pods/log',
        'pods/exec',
        'pods/attach',
        'pods/portforward',
        'configmaps',
        'secrets',
        'events',
        'namespaces',
        'namespaces/status',
        'nodes',
        'nodes/status',
      ],
    );
    const { paths } = (await ask('GET', '/openapi/v3')).json as {
      paths: Record<string, { serverRelativeURL: string }>;
    };
    const core = (await ask('GET', paths['api/v1']?.serverRelativeURL ?? '')).text;
    assert.match(core, /"fieldValidation".*"kind":"Pod"/, 'kubectl leaves the checking of fields to us');
    assert.equal((await ask('POST', '/version')).code, 405);
  });

  test("what pods use, as Kubernetes' metrics server tells it", async () => {
    const base = '/apis/metrics.k8s.io';
    assert.equal((await ask('GET', base)).json.kind, 'APIGroup');
    const { resources } = (await ask('GET', `${base}/v1beta1`)).json as { resources: { name: string }[] };
    assert.deepEqual(
      resources.map(({ name }) => name),
      ['pods'],
    );
    asked.length = 0;
    const list = { kind: 'PodMetricsList', apiVersion: 'metrics.k8s.io/v1beta1', metadata: {}, items: [metrics] };
    assert.deepEqual((await ask('GET', `${base}/v1beta1/pods`)).json, list);
    assert.deepEqual((await ask('GET', `${base}/v1beta1/namespaces/a/pods?labelSelector=x%3Dy`)).json, list);
    assert.deepEqual((await ask('GET', `${base}/v1beta1/namespaces/a/pods/web`)).json, metrics);
    assert.deepEqual(asked, [{}, { namespace: 'a', labelSelector: 'x=y' }, { namespace: 'a', name: 'web' }]);
    assert.equal((await ask('GET', `${base}/v1beta1/namespaces/a/pods/idle`)).code, 404);
    for (const url of ['/v1', '/v1beta1/nodes', '/v1beta1/namespaces/a', '/v1beta1/namespaces/a/pods/web/x']) {
      assert.equal((await ask('GET', `${base}${url}`)).code, 404, url);
    }
    assert.equal((await ask('POST', `${base}/v1beta1/pods`)).code, 405);
    const { op } = api;
    assert.deepEqual(await client.gantry.podMetrics(op, { namespace: 'a', labelSelector: 'x=y' }), [metrics]);
    assert.deepEqual(await client.gantry.podMetrics(op, { namespace: 'a', name: 'web' }), [metrics]);
    await assert.rejects(client.gantry.podMetrics(op, { namespace: 'a', name: 'idle' }), { kind: 'NotFound' });
  });

  test('what is not there says so in a Status', async () => {
    for (const url of [
      '/x',
      '/api/v1/deployments',
      '/api/v1/pods/x',
      '/api/v1/namespaces/default/nodes',
      `${POD_PATH}/`,
      `/api/v1//pods`,
      `${POD_PATH}/x/y`,
      `${POD_PATH}/x/status/y`,
      '/gantry/v1/x',
      '/openapi/v2',
    ]) {
      const { code, json } = await ask('GET', url);
      assert.deepEqual(
        [code, json.kind, json.status, json.reason, json.code],
        [404, 'Status', 'Failure', 'NotFound', 404],
        url,
      );
    }
    const { json } = await ask('GET', `${POD_PATH}/none`);
    assert.deepEqual(json.details, { name: 'none', kind: 'pods' });
    assert.equal((await ask('GET', '/api/v1/%zz')).code, 400);
    assert.equal((await ask('DELETE', '/api/v1/pods')).code, 405);
    assert.equal((await ask('DELETE', '/api/v1/namespaces')).code, 405);
    assert.equal((await ask('DELETE', `${POD_PATH}/`)).code, 404);
    assert.equal((await ask('PUT', POD_PATH)).code, 405);
    assert.equal((await ask('GET', `${POD_PATH}/x/exec?command=sh`)).code, 501);
  });

  test('the verbs, as any Kubernetes client sends them', async () => {
    const created = await ask('POST', POD_PATH, examplePod('rest', { nodeSelector: { 'disk"s': 'x' } }));
    assert.equal(created.code, 201);
    assert.equal(
      created.headers.warning,
      '299 - "spec.nodeSelector: ignored by Gantry: there is one node, and nothing to schedule"',
    );
    assert.equal((await ask('POST', POD_PATH, examplePod('rest'))).json.reason, 'AlreadyExists');
    const { json: pod } = await ask('GET', `${POD_PATH}/rest`);
    assert.equal(pod.status.phase, 'Pending');
    assert.equal(
      (await ask('PUT', `${POD_PATH}/rest/status`, { ...pod, status: { phase: 'Running' } })).json.status.phase,
      'Running',
    );
    const stale = await ask('PUT', `${POD_PATH}/rest`, pod);
    assert.deepEqual([stale.code, stale.json.reason], [409, 'Conflict']);
    const merged = await ask(
      'PATCH',
      `${POD_PATH}/rest`,
      { metadata: { labels: { a: 'b' } } },
      { 'content-type': 'application/merge-patch+json' },
    );
    assert.deepEqual(merged.json.metadata.labels, { a: 'b' });
    const strategic = { spec: { containers: [{ name: 'main', image: 'busybox:2' }] } };
    const patched = await ask('PATCH', `${POD_PATH}/rest`, strategic, {
      'content-type': 'application/strategic-merge-patch+json',
    });
    assert.equal(patched.json.spec.containers[0].image, 'busybox:2');
    const operations = [{ op: 'replace', path: '/metadata/labels/a', value: 'c' }];
    assert.equal(
      (await ask('PATCH', `${POD_PATH}/rest`, operations, { 'content-type': 'application/json-patch+json' })).json
        .metadata.labels.a,
      'c',
    );
    const apply = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {mode: "0644"}\n';
    const applyUrl = '/api/v1/namespaces/default/configmaps/applied';
    const yaml = { 'content-type': 'application/apply-patch+yaml' };
    assert.equal((await ask('PATCH', `${applyUrl}?fieldManager=t`, apply, yaml)).code, 201);
    assert.equal((await ask('PATCH', `${applyUrl}?fieldManager=t`, apply, yaml)).code, 200);
    assert.equal((await ask('PATCH', applyUrl, apply, yaml)).code, 400);
    const marked = await ask('DELETE', `${POD_PATH}/rest?gracePeriodSeconds=7`);
    assert.equal(marked.json.metadata.deletionGracePeriodSeconds, 7);
    const options = {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      gracePeriodSeconds: 0,
      preconditions: { uid: pod.metadata.uid },
    };
    assert.equal((await ask('DELETE', `${POD_PATH}/rest`, options)).code, 200);
    assert.equal((await ask('GET', `${POD_PATH}/rest`)).code, 404);
    assert.equal(
      (await ask('DELETE', '/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name=applied')).json.items
        .length,
      1,
    );
  });

  test('bad requests, each with its reason', async () => {
    const post = (body: unknown, headers?: Record<string, string>, query = ''): Promise<Answer> =>
      ask('POST', POD_PATH + query, body, headers);
    const reasons: [Promise<Answer>, number, RegExp][] = [
      [post('{"half'), 400, /not valid JSON/],
      [post(''), 400, /must be a Kubernetes object/],
      [post('[]'), 400, /must be a Kubernetes object/],
      [post({ kind: 'ConfigMap' }), 400, /the object is a "ConfigMap"/],
      [post('x: [', { 'content-type': 'application/yaml' }), 400, /not valid YAML/],
      [post('a: 1\n---\nb: 2', { 'content-type': 'application/yaml' }), 400, /must be one YAML document/],
      [post('x', { 'content-type': 'application/cbor' }), 415, /unknown format/],
      [
        post('x', { 'content-type': 'application/vnd.kubernetes.protobuf' }),
        400,
        /does not begin as Kubernetes' protobuf/,
      ],
      [post(examplePod('x', { bad: 1 } as object)), 422, /spec\.bad: unknown field "bad"/],
      [post(examplePod('x'), {}, '?dryRun=Some'), 400, /invalid dryRun/],
      [post(examplePod('x'), {}, '?fieldValidation=Maybe'), 400, /invalid fieldValidation/],
      [
        post({ ...examplePod('x'), metadata: { name: 'x', namespace: 'kube-system' } }),
        400,
        /does not match the namespace/,
      ],
      [ask('PATCH', `${POD_PATH}/x`, {}), 415, /not a kind of patch/],
      [ask('DELETE', `${POD_PATH}/x?gracePeriodSeconds=-1`), 400, /gracePeriodSeconds must be an integer/],
      [ask('DELETE', `${POD_PATH}/x`, '"x"'), 400, /DeleteOptions/],
      [ask('GET', `${POD_PATH}?labelSelector=${encodeURIComponent('a b')}`), 400, /unable to parse/],
      [ask('GET', `${POD_PATH}?resourceVersion=abc`), 400, /invalid resource version "abc"/],
      [ask('GET', `${POD_PATH}/x?resourceVersion=-1`), 400, /invalid resource version/],
      [ask('GET', `${POD_PATH}?watch=1&resourceVersion=x`), 400, /invalid resource version/],
      [ask('GET', `${POD_PATH}?watch=1&resourceVersion=999999`), 410, /not known here/],
    ];
    for (const [answer, code, message] of reasons) {
      const { code: got, json } = await answer;
      assert.equal(got, code, JSON.stringify(json));
      assert.match(json.message as string, message);
    }
    const invalid = await post(examplePod('x', { containers: [] }));
    assert.deepEqual(invalid.json.details.causes, [
      { reason: 'FieldValueRequired', message: 'Required value: a pod needs a container', field: 'spec.containers' },
    ]);
    const warned = await post(examplePod('w', { bad: 1 } as object), {}, '?fieldValidation=Warn&dryRun=All');
    assert.deepEqual([warned.code, warned.headers.warning], [201, '299 - "spec.bad: unknown field \\"bad\\""']);
    assert.equal((await ask('GET', `${POD_PATH}/w`)).code, 404);
  });

  test('a body that is too large is refused, announced or not', async () => {
    const big = JSON.stringify({ ...examplePod('big'), data: 'x'.repeat(2_000_000) });
    const announced = await ask('POST', POD_PATH, big, { 'content-length': String(big.length) }).catch(
      (error: unknown) => error,
    );
    if (!(announced instanceof Error)) assert.equal((announced as Answer).json.reason, 'RequestEntityTooLarge');
    const chunked = await ask('POST', POD_PATH, big, { 'transfer-encoding': 'chunked' }).catch(
      (error: unknown) => error,
    );
    if (!(chunked instanceof Error)) assert.equal((chunked as Answer).json.code, 413);
    assert.equal((await ask('GET', '/healthz')).text, 'ok');
  });

  test('garbage on the socket harms nobody', async () => {
    for (const garbage of ['\0\0\0\0', 'GET\r\n\r\n', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'GET / HTTP/1.1\r\n']) {
      await new Promise<void>((resolve) => {
        const raw = net.connect(socket, () => raw.end(garbage));
        raw.on('error', () => undefined);
        raw.on('close', () => resolve());
        raw.resume();
      });
    }
    assert.equal((await ask('GET', '/healthz')).text, 'ok');
  });

  test('over TCP, web pages are not answered', async () => {
    const { port } = new URL(server.addresses[1] ?? '');
    const tcp = { host: '127.0.0.1', port };
    assert.equal((await ask('GET', '/healthz', undefined, {}, tcp)).text, 'ok');
    assert.equal((await ask('GET', '/healthz', undefined, { origin: 'http://evil' }, tcp)).code, 403);
    assert.equal((await ask('GET', '/healthz', undefined, { host: 'evil:80' }, tcp)).code, 403);
    const remote = await connectApi(server.addresses[1] ?? '');
    assert.equal((await remote.kube.list(api.op, 'namespaces')).items.length, 2);
    await remote.close();
  });

  test('tables for kubectl get', async () => {
    await ask('POST', POD_PATH, examplePod('table'));
    const accept = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };
    const { json } = await ask('GET', POD_PATH, undefined, accept);
    assert.equal(json.kind, 'Table');
    assert.deepEqual(json.columnDefinitions.map((column: { name: string }) => column.name).slice(0, 5), [
      'Name',
      'Ready',
      'Status',
      'Restarts',
      'Age',
    ]);
    assert.deepEqual(json.rows[0].cells.slice(0, 5), ['table', '0/1', 'Pending', '0', '0s']);
    assert.equal(json.rows[0].object.kind, 'PartialObjectMetadata');
    for (const resource of ['configmaps', 'secrets', 'events', 'namespaces', 'nodes']) {
      assert.equal((await ask('GET', `/api/v1/${resource}`, undefined, accept)).json.kind, 'Table');
    }
    assert.equal((await ask('GET', POD_PATH, undefined, { accept: 'application/json' })).json.kind, 'PodList');
  });

  test('the client: of several who apply the same new object, one is told that it has made it', async () => {
    let created = 0;
    const apply = async (): Promise<unknown> =>
      await client.kube.patch(
        api.op,
        'configmaps',
        { namespace: 'default', name: 'raced' },
        { type: 'apply', fieldManager: 't', body: { metadata: { name: 'raced' }, data: { a: 'b' } } },
        { onCreated: () => (created += 1) },
      );
    await Promise.all([apply(), apply(), apply(), apply()]);
    assert.equal(created, 1);
  });

  test('the client: verbs, warnings, errors', async () => {
    const { kube } = client;
    const { op } = api;
    const warnings: string[] = [];
    const onWarning = (warning: string): void => void warnings.push(warning);
    const pod = await kube.create(
      op,
      'pods',
      examplePod('mine', { nodeSelector: { a: 'b' }, affinity: { podAffinity: {} } }),
      { onWarning },
    );
    assert.deepEqual(warnings, [
      'spec.nodeSelector: ignored by Gantry: there is one node, and nothing to schedule',
      'spec.affinity: ignored by Gantry: there is one node, and nothing to schedule',
    ]);
    assert.deepEqual(await kube.get(op, 'pods', { namespace: 'default', name: 'mine' }), pod);
    const status = await kube.replaceStatus(op, 'pods', { ...pod, status: { phase: 'Running' } });
    assert.equal(status.status?.phase, 'Running');
    const labels = { 'a.b/c': 'd' };
    warnings.length = 0;
    await kube.patch(op, 'pods', pod.metadata, { type: 'merge', body: { metadata: { labels: {} } } }, { onWarning });
    assert.deepEqual(warnings, []);
    const patched = await kube.patch(
      op,
      'pods',
      pod.metadata,
      { type: 'apply', fieldManager: 't', body: { metadata: { name: 'mine', labels }, spec: pod.spec } },
      { onWarning },
    );
    assert.deepEqual(patched.metadata.labels, labels);
    assert.equal((await kube.list(op, 'pods', { namespace: 'default', labelSelector: 'a.b/c=d' })).items.length, 1);
    assert.equal(
      (await kube.replace(op, 'pods', { ...patched, metadata: { ...patched.metadata, labels: {} } })).metadata.labels?.[
        'a.b/c'
      ],
      undefined,
    );
    await assert.rejects(kube.replace(op, 'pods', pod), (error) => isKind(error, 'Aborted'));
    await assert.rejects(kube.get(op, 'pods', { name: 'none' }), (error) => isKind(error, 'NotFound'));
    await assert.rejects(kube.delete(op, 'pods', { name: '' }), (error) => isKind(error, 'InvalidArgument'));
    const key = { namespace: 'default', name: 'mine' };
    await kube.delete(op, 'pods', key, { dryRun: true });
    assert.equal((await kube.get(op, 'pods', key)).metadata.deletionTimestamp, undefined);
    await kube.delete(op, 'pods', key, { gracePeriodSeconds: 5 });
    await kube.delete(op, 'pods', key, { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } });
    await assert.rejects(kube.get(op, 'pods', key), (error) => isKind(error, 'NotFound'));
  });

  test('the client: watches', async () => {
    const controller = new AbortController();
    const op = { ...api.op, signal: controller.signal };
    const { metadata } = await client.kube.list(api.op, 'configmaps');
    const seen: string[] = [];
    const watching = (async (): Promise<void> => {
      for await (const event of client.kube.watch(op, 'configmaps', { resourceVersion: metadata.resourceVersion })) {
        seen.push(event.type);
        if (event.type === 'DELETED') controller.abort();
      }
    })();
    const key = { namespace: 'default', name: 'w' };
    const big = 'ü'.repeat(200_000);
    await client.kube.create(api.op, 'configmaps', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: key,
      data: { big },
    });
    await client.kube.patch(api.op, 'configmaps', key, { type: 'merge', body: { data: { more: big } } });
    await client.kube.delete(api.op, 'configmaps', key);
    await watching;
    assert.deepEqual(seen, ['ADDED', 'MODIFIED', 'DELETED']);
    const old = client.kube.watch(api.op, 'pods', { resourceVersion: '999999' });
    await assert.rejects(old[Symbol.asyncIterator]().next(), (error) => isKind(error, 'OutOfRange'));
    for await (const event of client.kube.watch(api.op, 'namespaces')) {
      assert.equal(event.type, 'ADDED');
      break;
    }
  });

  test('the client: logs, explain, stop, images', async () => {
    const { gantry } = client;
    const { op } = api;
    const text = async (name: string): Promise<string> => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of gantry.logs(op, {
        namespace: 'default',
        name,
        container: 'c',
        tailLines: 0,
        follow: true,
      }))
        chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    };
    assert.equal(await text('web'), 'one\ntwo\n');
    assert.deepEqual(JSON.parse(JSON.stringify(asked.pop())), {
      namespace: 'default',
      name: 'web',
      container: 'c',
      follow: true,
      previous: false,
      timestamps: false,
      tailLines: 0,
    });
    await assert.rejects(text('none'), (error) => isKind(error, 'NotFound'));
    assert.deepEqual((await gantry.explain(op, { namespace: 'n', name: 'p', uid: 'u' })).pending, [
      { what: 'volume', message: 'blocked' },
    ]);
    assert.deepEqual(asked.pop(), { namespace: 'n', name: 'p', uid: 'u' });
    assert.deepEqual(await gantry.stop(op, { namespace: 'n', container: 'web/a' }), {
      containerId: 'c',
      pod: 'web',
      container: 'web/a',
    });
    await assert.rejects(gantry.stop(op, { namespace: 'n', container: 'gone' }), (error) =>
      isKind(error, 'FailedPrecondition'),
    );
    assert.deepEqual(await gantry.listImages(op), [image]);
    assert.deepEqual(await gantry.removeImage(op, 'host:5000/a/b@sha256:1'), ['host:5000/a/b@sha256:1']);
    assert.deepEqual((await gantry.inspectImage(op, 'host:5000/a/b@sha256:1')).config, {
      reference: 'host:5000/a/b@sha256:1',
    });
    await assert.rejects(gantry.inspectImage(op, 'gone'), (error) => isKind(error, 'NotFound'));
    assert.deepEqual(await gantry.removeImage(op, 'a', { force: true }), ['a', 'forced']);
    const kinds: string[] = [];
    for await (const item of gantry.pullImage(op, { reference: 'a' })) kinds.push(item.kind);
    assert.deepEqual(kinds, ['progress', 'done']);
    const bad = gantry.pullImage(op, { reference: 'bad' })[Symbol.asyncIterator]();
    await bad.next();
    await assert.rejects(
      bad.next(),
      (error) => isKind(error, 'Unauthenticated') && /no credentials/.test(String(error)),
    );
    for await (const item of gantry.importImage(op, {
      path: '/x',
      source: 'rootfs',
      name: 'n',
      entrypoint: ['/bin/sh'],
    })) {
      assert.equal(item.kind, 'done');
    }
    assert.deepEqual(JSON.parse(JSON.stringify(asked.pop())), {
      path: '/x',
      source: 'rootfs',
      name: 'n',
      entrypoint: ['/bin/sh'],
    });
  });

  test('a client whose daemon is gone, or who gives up, is told so', async () => {
    const nobody = await connectApi(`unix://${path.join(folder, 'none.sock')}`);
    await assert.rejects(
      nobody.kube.list(api.op, 'pods'),
      (error) => isKind(error, 'Unavailable') && /is gantryd running/.test(String(error)),
    );
    await assert.rejects(connectApi('ftp://x'), (error) => isKind(error, 'InvalidArgument'));
    const controller = new AbortController();
    const list = client.kube.list({ ...api.op, signal: controller.signal }, 'pods');
    controller.abort();
    await assert.rejects(list, (error) => isKind(error, 'Canceled'));
  });
});

test('closing ends watches quietly and takes the socket away', async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'gantry-api-'));
  const api = await openFakeApi();
  const server = await serveApi({
    registry: api.registry,
    clock: api.clock,
    log: silentLog,
    listen: [`unix://${folder}/api.sock`],
    version: '0',
  });
  const client = await connectApi(`unix://${folder}/api.sock`);
  const started = Promise.withResolvers<undefined>();
  const watching = (async (): Promise<number> => {
    let count = 0;
    for await (const event of client.kube.watch(api.op, 'namespaces')) {
      assert.equal(event.type, 'ADDED');
      if (++count === 2) started.resolve(undefined);
    }
    return count;
  })();
  await started.promise;
  await server.close();
  assert.equal(await watching, 2);
  assert.deepEqual(await readdir(folder), []);
  await client.close();
  api.close();
  await rm(folder, { recursive: true });
});
