import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { versionInfo } from '../api/discovery.ts';
import type { ApiConnection } from '../gantry-extensions.ts';
import { apiError, statusOf } from '../status-error.ts';
import { connectApi } from './connect.ts';

const op = { signal: new AbortController().signal, log: silentLog };

/** What a daemon answers, by method and path; what it does not know is a 404, as the API server's. */
type Answers = Readonly<Record<string, unknown>>;

async function withDaemon<T>(answers: Answers, use: (api: ApiConnection, asked: string[]) => Promise<T>): Promise<T> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const what = `${request.method ?? ''} ${request.url ?? ''}`;
    asked.push(what);
    const answer = answers[what];
    const unknown = apiError('NotFound', `the server could not find the requested resource (${request.url ?? ''})`);
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? statusOf(unknown)));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = await connectApi(address, { ownVersion: '0.10.0' });
  try {
    return await use(api, asked);
  } finally {
    await api.close();
    await new Promise((resolve) => server.close(resolve));
  }
}

const EXPLAIN = 'GET /gantry/v1/namespaces/default/pods/web/explain';
const WITHOUT_OBJECTS = { [EXPLAIN]: { entries: [], pending: [] } };
const explain = (api: ApiConnection): Promise<unknown> => api.gantry.explain(op, { namespace: 'default', name: 'web' });

test('an answer without a field: the versions are compared, once, and one line says what to do', async () => {
  const said: [version: string, message: RegExp][] = [
    ['0.9.1', /^the daemon is older than this program \(0\.9\.1, not 0\.10\.0\): restart gantryd$/],
    ['0.11.0', /^the daemon is newer than this program \(0\.11\.0, not 0\.10\.0\): use the gantry that came with it$/],
    [
      '0.10.0',
      /^the daemon is older than this program, though both are 0\.10\.0: restart gantryd \(its answer has no "objects"\)$/,
    ],
  ];
  for (const [version, message] of said) {
    await withDaemon({ ...WITHOUT_OBJECTS, 'GET /version': versionInfo(version) }, async (api, asked) => {
      await assert.rejects(explain(api), { kind: 'FailedPrecondition', message });
      assert.deepEqual(asked, [EXPLAIN, 'GET /version']);
    });
  }
});

test('a question that the daemon does not know', async () => {
  await withDaemon({ 'GET /version': versionInfo('0.9.0') }, async (api) => {
    const message = /^the daemon is older than this program \(0\.9\.0, not 0\.10\.0\): restart gantryd$/;
    await assert.rejects(api.gantry.doctor(op, { fix: false }), { message });
    await assert.rejects(api.gantry.listImages(op), { message });
    await assert.rejects(Array.fromAsync(api.gantry.pullImage(op, { reference: 'x' })), { message });
  });
});

test('what is no Gantry is called by its name', async () => {
  await withDaemon({ 'GET /version': { major: '1', minor: '31', gitVersion: 'v1.31.2' } }, async (api) => {
    const message = /^http:\/\/127\.0\.0\.1:\d+ is no gantryd but Kubernetes v1\.31\.2, which cannot do this$/;
    await assert.rejects(api.gantry.listImages(op), { message });
  });
  await withDaemon({}, async (api) => {
    const message = /^what answers at http:\/\/127\.0\.0\.1:\d+ is no gantryd, or an old one: restart gantryd$/;
    await assert.rejects(api.gantry.listImages(op), { message });
  });
});

test('an object that is not found is not blamed on the daemon', async () => {
  await withDaemon({ 'GET /version': versionInfo('0.9.0') }, async (api) => {
    await assert.rejects(api.kube.get(op, 'pods', { namespace: 'default', name: 'x' }), { kind: 'NotFound' });
  });
});

test('an answer with all that is needed, and with more', async () => {
  const answer = { entries: [], pending: [], objects: [], later: 1 };
  await withDaemon({ [EXPLAIN]: answer }, async (api, asked) => {
    assert.deepEqual(await explain(api), answer);
    assert.deepEqual(asked, [EXPLAIN]);
  });
});
