import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CriConnection } from '../cri/client.ts';
import { notImplemented } from '../lib/errors.ts';
import { silentLog } from '../lib/log.ts';
import { criDiagnosis } from './cri-diagnosis.ts';
import { PACKAGE_VERSION } from '../lib/package-version.ts';

const op = { signal: new AbortController().signal, log: silentLog };

/** A CRI socket whose runtime has never heard of the inspector. */
function socketOf(runtimeName: string, runtimeVersion: string): CriConnection {
  const unknown = (): Promise<never> => Promise.reject(notImplemented('unknown service'));
  const runtime = { version: () => Promise.resolve({ runtimeName, runtimeVersion }) };
  return { runtime, service: () => ({ explain: unknown, doctor: unknown }) } as unknown as CriConnection;
}

test('a runtime that does not know the question is called by its name and age', async () => {
  const own = PACKAGE_VERSION;
  const cases: [name: string, version: string, message: string][] = [
    ['gantry', '0.0.1', `the daemon is older than this program (0.0.1, not ${own}): restart gantryd`],
    [
      'gantry',
      own,
      `the daemon is older than this program, though both are ${own}: restart gantryd (it does not know the question)`,
    ],
    ['containerd', 'v2.1.4', 'what answers on the CRI socket is containerd v2.1.4 and no gantryd: it cannot tell'],
  ];
  for (const [name, version, message] of cases) {
    const source = criDiagnosis(socketOf(name, version));
    await assert.rejects(source.doctor(op, { fix: false }), { message });
    await assert.rejects(source.explain(op, { namespace: 'default', name: 'web' }), { message });
    await assert.rejects(source.explainContainer(op, { namespace: 'default', container: 'x' }), { message });
  }
});
