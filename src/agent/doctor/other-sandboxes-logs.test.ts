import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListPodSandboxResponse, PodSandboxStatusResponse } from '../../cri/gen/api.ts';
import { notFound } from '../../lib/errors.ts';
import { silentLog } from '../../lib/log.ts';
import { LABEL_AGENT } from '../pods/names.ts';
import { otherSandboxesLogs } from './other-sandboxes-logs.ts';

const op = { signal: new AbortController().signal, log: silentLog };

test('log directories of those whom this agent has not made, where the runtime tells them', async () => {
  const infos: Readonly<Record<string, string>> = {
    a: '{"config":{"logDirectory":"/logs/by-hand"}}',
    b: '{"config":{"log_directory":"/logs/of-another"}}',
    mine: '{"config":{"logDirectory":"/logs/mine"}}',
    torn: '{',
    none: '{"config":{"logDirectory":""}}',
  };
  const items = [...Object.keys(infos), 'gone'].map((id) => ({
    id,
    metadata: { name: `n-${id}` },
    labels: id === 'mine' ? { [LABEL_AGENT]: 'me' } : { [LABEL_AGENT]: 'other' },
  }));
  const logs = await otherSandboxesLogs(
    op,
    {
      listPodSandbox: () => Promise.resolve(ListPodSandboxResponse.fromPartial({ items })),
      podSandboxStatus: (_op, { podSandboxId }) => {
        const info = infos[podSandboxId];
        if (info === undefined) return Promise.reject(notFound('removed since'));
        return Promise.resolve(PodSandboxStatusResponse.fromPartial({ info: { info } }));
      },
    },
    'me',
  );
  assert.deepEqual(
    [...logs],
    [
      ['/logs/by-hand', 'sandbox a (n-a)'],
      ['/logs/of-another', 'sandbox b (n-b)'],
    ],
  );
});
