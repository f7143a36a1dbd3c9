import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ContainerStatus, Pod } from '../../kube/objects.ts';
import type { Finding } from '../../lib/doctor.ts';
import { reportLines } from '../commands/doctor.ts';
import { errorText } from '../error-text.ts';
import { shortDuration, stepDuration } from './age.ts';
import { explanationLines } from './explanation.ts';
import { podStatusWord, readyCount } from './pod-summary.ts';
import { progressLine } from './progress-display.ts';
import { humanSize } from './size.ts';
import { layOut } from './table.ts';

const S = 1_000;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;

const ages: readonly [ms: number, text: string][] = [
  [-5, '0s'],
  [0, '0s'],
  [119 * S, '119s'],
  [2 * M, '2m'],
  [3 * M + 20 * S, '3m20s'],
  [12 * M + 5 * S, '12m'],
  [2 * H + 59 * M, '179m'],
  [3 * H + 5 * M, '3h5m'],
  [9 * H, '9h'],
  [47 * H, '47h'],
  [2 * D + 3 * H, '2d3h'],
  [40 * D, '40d'],
  [800 * D, '2y70d'],
  [9 * 365 * D, '9y'],
];
for (const [ms, text] of ages) {
  test(`an age of ${ms} ms reads ${text}`, () => assert.equal(shortDuration(ms), text));
}

test('a cell that somebody else wrote stays in its column and its line', () => {
  assert.deepEqual(layOut(['PATH', 'MESSAGE'], [['/a\n/b', 'x\u001b[2Jy']]), [
    'PATH     MESSAGE',
    '/a\\n/b   x\\u001b[2Jy',
  ]);
});

test('a story and a description keep to their lines, whatever is told', () => {
  const entry = { seq: 1, wallMs: 0, bootId: 'b', subject: {}, what: 'w', message: 'blocked by /a\nb', why: 'c\rd' };
  const pending = [{ what: 'volume', message: 'mounted at /a\nNothing is pending.' }];
  const lines = explanationLines('pod p', { entries: [entry], pending, objects: [] }, 0);
  assert.ok(
    lines.every((text) => !/[\n\r]/.test(text)),
    lines.join('|'),
  );
  assert.ok(lines.includes('  mounted at /a\\nNothing is pending.'), lines.join('|'));
  const finding = { problem: 'left over', kind: 'mount', key: '/a\nb', message: 'm' } as unknown as Finding;
  const report = reportLines({ instanceId: 'i', findings: [finding], notices: ['n\u009bm'] }, { wide: true });
  assert.ok(report.includes('left over  mount /a\\nb') && report.includes('Note: n\\u009bm'), report.join('|'));
});

test('an error may have lines, and nothing else that controls a terminal', () => {
  assert.equal(errorText(new Error('one\ntwo\u001b[2J')), 'error: one\ntwo\\u001b[2J');
});

test('the time of a step keeps its unit readable', () => {
  assert.deepEqual([0.43, 12.3, 3_140, 125_000].map(stepDuration), ['0.4 ms', '12 ms', '3.1 s', '2m5s']);
});

test('sizes have three digits and decimal units', () => {
  assert.deepEqual([0, 999, 1_000, 1_234_567, 5e9].map(humanSize), ['0B', '999B', '1.00kB', '1.23MB', '5.00GB']);
});

test('columns of a table start at the same place in every row, and nothing trails', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.stringMatching(/^[a-z]{1,12}$/), { minLength: 3, maxLength: 3 }), { maxLength: 6 }),
      (rows) => {
        const lines = layOut(['ONE', 'TWO', 'THREE'], rows);
        const header = lines[0] ?? '';
        rows.forEach((row, i) => {
          const text = lines[i + 1] ?? '';
          assert.equal(text.slice(header.indexOf('TWO')).startsWith(row[1] ?? ''), true);
          assert.equal(text.slice(header.indexOf('THREE')), row[2]);
          assert.equal(text, text.trimEnd());
        });
      },
    ),
  );
});

test('a progress line fits the terminal and never overfills its bar', () => {
  fc.assert(
    fc.property(fc.nat(1e9), fc.nat(1e9), fc.integer({ min: 20, max: 200 }), (doneBytes, totalBytes, columns) => {
      const text = progressLine(
        { item: `sha256:${'a'.repeat(64)}`, status: 'downloading', doneBytes, totalBytes },
        columns,
      );
      assert.ok(text.length <= columns);
      assert.ok((text.match(/=/g) ?? []).length <= 24);
    }),
  );
});

function pod(
  statuses: readonly Partial<ContainerStatus>[],
  more: Partial<Pod['metadata']> = {},
  phase = 'Running',
): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'p',
      namespace: 'default',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...more,
    },
    spec: { containers: statuses.map((_, i) => ({ name: `c${i}`, image: 'i' })) },
    status: {
      phase,
      containerStatuses: statuses.map((status, i) => ({
        name: `c${i}`,
        image: 'i',
        imageID: '',
        ready: false,
        restartCount: 0,
        ...status,
      })),
    },
  };
}
const running = { ready: true, state: { running: { startedAt: '2026-01-01T00:00:00Z' } } };

const words: readonly [title: string, pod: Pod, word: string][] = [
  ['all run', pod([running, running]), 'Running'],
  ['one waits', pod([running, { state: { waiting: { reason: 'ImagePullBackOff' } } }]), 'ImagePullBackOff'],
  [
    'the first that has something to say',
    pod([{ state: { waiting: { reason: 'A' } } }, { state: { waiting: { reason: 'B' } } }]),
    'A',
  ],
  ['one failed', pod([{ state: { terminated: { exitCode: 7, reason: 'Error' } } }], {}, 'Failed'), 'Error'],
  ['an exit without a reason', pod([{ state: { terminated: { exitCode: 7 } } }], {}, 'Failed'), 'ExitCode:7'],
  [
    'a signal without a reason',
    pod([{ state: { terminated: { exitCode: 137, signal: 9 } } }], {}, 'Failed'),
    'Signal:9',
  ],
  ['deleted', pod([running], { deletionTimestamp: '2026-01-01T00:01:00Z' }), 'Terminating'],
  [
    'one is done, one not ready yet',
    pod([running, { state: { terminated: { exitCode: 0, reason: 'Completed' } } }]),
    'NotReady',
  ],
  ['nothing yet', pod([{}], {}, 'Pending'), 'Pending'],
];
for (const [title, object, word] of words) {
  test(`the status word when ${title}: ${word}`, () => assert.equal(podStatusWord(object), word));
}

test('ready containers out of all that are wanted', () => {
  assert.equal(readyCount(pod([running, {}])), '1/2');
});
