import assert from 'node:assert/strict';
import type { ImageImport } from '../../lib/image-import.ts';
import { mkdtemp, rmdir } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import type { DoctorReport } from '../../lib/doctor.ts';
import { isKind, notFound } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { connectCri } from '../client.ts';
import { serveCri } from '../server.ts';
import { inspectorOf, serveInspector } from './inspector-service.ts';
import type { ExplainQuestion, Explanation, Inspector, InspectorSubject, PendingItem } from './inspector.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };
const version = {
  version: '0.1.0',
  instanceId: 'i1',
  pid: 42,
  startedAtWallMs: 1_700_000_000_123,
  bootId: 'b',
  nodeVersion: 'v26',
  ociRuntime: 'crun (/usr/bin/crun)',
  root: '/r',
  state: '/s',
};
const blocked: PendingItem = {
  subject: { podUid: 'u' },
  kind: 'teardown',
  key: '/pods/u/volumes/x',
  message: 'volume x cannot be deleted',
  sinceWallMs: 1_700_000_000_000,
  attempts: 3,
  lastError: 'blocked',
  nextAttemptWallMs: 1_700_000_001_000,
  blockers: [
    { path: '/pods/u/volumes/x/m', reason: 'mount', source: 'tmpfs', holders: [{ pid: 7, comm: 'sh' }], message: 'm' },
  ],
};
const report: DoctorReport = {
  instanceId: 'i1',
  findings: [
    { problem: 'orphan', kind: 'cgroup', key: '/x', message: 'm', action: 'a', outcome: 'failed', error: 'e' },
    { problem: 'foreign', kind: 'netns', key: '/y', message: 'n' },
  ],
  notices: ['no iptables'],
};
const explanation: Explanation = {
  entries: [
    {
      seq: 1,
      wallMs: 1_700_000_000_000,
      bootId: 'b',
      subject: { podUid: 'u', containerName: 'web' },
      what: 'container.exited',
      message: 'exited with 0',
      why: 'deleted by the user',
      outcome: 'ok',
      durationMs: 1.5,
      data: { code: 0, nested: ['x'] },
    },
    { seq: 2, wallMs: 0, bootId: 'b', subject: {}, what: 'x', message: '', durationMs: 0 },
  ],
  pending: [{ ...blocked, blockers: [] }],
  objects: [
    {
      kind: 'container',
      id: 'c1',
      name: 'web',
      podUid: 'u',
      podName: 'hello',
      podNamespace: 'default',
      state: 'exited',
      attempt: 2,
      exitCode: 0,
      reason: 'Completed',
      createdAtWallMs: 1,
      startedAtWallMs: 2,
      finishedAtWallMs: 3,
    },
    { kind: 'sandbox', id: 's1', name: 'hello', podName: 'hello', state: 'ready', attempt: 0, createdAtWallMs: 1 },
  ],
};

test('questions and answers pass the socket as they are', async () => {
  const folder = await mkdtemp(join(os.tmpdir(), 'gantry-inspector-'));
  const asked: (ExplainQuestion | InspectorSubject | undefined)[] = [];
  const imports: ImageImport[] = [];
  const imported = { id: 'sha256:1', tags: ['x:1'], digests: [], sizeBytes: 5_000_000_000 };
  const inspector: Inspector = {
    version: () => Promise.resolve(version),
    explain: (_op, question) => {
      asked.push(question);
      if (question.subject.podName === 'gone') return Promise.reject(notFound('no such pod'));
      return Promise.resolve(explanation);
    },
    doctor: (_op, { fix }) => (fix ? Promise.resolve(report) : Promise.reject(notFound('no fix asked'))),
    importImages: (_op, request) => {
      imports.push(request);
      return Promise.resolve([imported]);
    },
    pendingWork: (_op, subject) => {
      asked.push(subject);
      return Promise.resolve([blocked]);
    },
  };
  const server = await serveCri({
    listen: join(folder, 's'),
    log: silentLog,
    extraServices: [serveInspector(inspector)],
  });
  const connection = connectCri(join(folder, 's'));
  const remote = inspectorOf(connection);
  try {
    assert.deepEqual(await remote.version(op), version);
    const subject = { podNamespace: 'default', podName: 'hello' };
    assert.deepEqual(await remote.explain(op, { subject, limit: 5 }), explanation);
    assert.deepEqual(await remote.explain(op, { subject }), explanation);
    assert.deepEqual(await remote.explain(op, { subject: {}, container: 'web' }), explanation);
    assert.deepEqual(await remote.doctor(op, { fix: true }), report);
    await assert.rejects(remote.doctor(op, { fix: false }), (e) => isKind(e, 'NotFound'));
    assert.deepEqual(await remote.pendingWork(op), [blocked]);
    assert.deepEqual(await remote.pendingWork(op, { podUid: 'u' }), [blocked]);
    assert.deepEqual(asked, [
      { subject, limit: 5 },
      { subject },
      { subject: {}, container: 'web' },
      undefined,
      { podUid: 'u' },
    ]);
    const archive = { path: '/a.tar', source: 'archive' } as const;
    const settings = { entrypoint: ['/a', ''], cmd: ['b'], env: ['A=1'], workingDir: '/w', user: '7' };
    const rootfs = { path: '/r', source: 'rootfs', name: 'x:1', ...settings } as const;
    for (const request of [archive, rootfs]) assert.deepEqual(await remote.importImages(op, request), [imported]);
    assert.deepEqual(imports, [archive, rootfs]);
    const relative = remote.importImages(op, { path: 'a.tar', source: 'archive' });
    await assert.rejects(relative, (e) => isKind(e, 'InvalidArgument'));
    await assert.rejects(remote.explain(op, { subject: { podName: 'gone' } }), (e) => isKind(e, 'NotFound'));
    await assert.rejects(remote.explain(op, { subject: {} }), (e) => isKind(e, 'InvalidArgument'));
    await assert.rejects(remote.explain(op, { subject, limit: -1 }), (e) => isKind(e, 'InvalidArgument'));
  } finally {
    connection.close();
    await server.close();
    await rmdir(folder);
  }
});
