import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXEC_OUTPUT_CAP_BYTES as CAP, fitIntoAnswer } from './exec-output-cap.ts';
import { ExecSyncResponse } from './gen/api.ts';

const CLIENTS_TAKE_BYTES = 16 << 20;
const HALF = CAP / 2;

test('an answer with whatever output is one that its clients take', () => {
  const cases: [written: [number, number], kept: [number, number]][] = [
    [
      [0, 0],
      [0, 0],
    ],
    [
      [CAP, 0],
      [CAP, 0],
    ],
    [
      [0, CAP],
      [0, CAP],
    ],
    [
      [CAP, 10],
      [CAP - 10, 10],
    ],
    [
      [10, CAP],
      [10, CAP - 10],
    ],
    [
      [CAP, CAP],
      [HALF, HALF],
    ],
    [
      [HALF + 1, HALF],
      [HALF, HALF],
    ],
  ];
  for (const [[out, err], kept] of cases) {
    const [stdout, stderr] = fitIntoAnswer(Buffer.alloc(out), Buffer.alloc(err));
    assert.deepEqual([stdout.length, stderr.length], kept);
    const answer = { stdout: Buffer.from(stdout), stderr: Buffer.from(stderr), exitCode: -1 };
    assert.ok(ExecSyncResponse.encode(answer).finish().length <= CLIENTS_TAKE_BYTES);
  }
});
