import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CRI_ROWS } from '../../bench/rows.ts';
import { ratioOf, Samples, tableOf } from '../../bench/samples.ts';

describe('the tables of the benchmark', () => {
  it('have each measured row with its figures, the ratio of the middle values, and whether the goal is met', () => {
    const samples = new Samples();
    for (const value of [30, 40, 50]) samples.add('run-sandbox', 'gantry', value);
    for (const value of [50, 50, 90]) samples.add('run-sandbox', 'other', value);
    samples.add('fill-50', 'gantry', 3);
    samples.add('fill-50', 'other', 4);
    samples.add('exec', 'gantry', 7);
    const [head, , ...rows] = tableOf(CRI_ROWS, samples, 'same', 'containerd');
    assert.match(head ?? '', /containerd p50/);
    assert.deepEqual(rows, [
      '| RunPodSandbox | 40.0 / 50.0 ms | 50.0 / 90.0 ms | 0.80 | ≤ 0.9 | met |',
      '| ExecSync(true) | 7.00 ms | – | – | ≤ 1.0 |  |',
      '| 50 pods with one container each | 3.00 s | 4.00 s | 0.75 | – |  |',
    ]);
    assert.match(tableOf(CRI_ROWS, samples, 'own', 'x')[2] ?? '', /0\.80 \| ≤ 0\.6 \| \*\*missed\*\* \|$/);
  });

  it('have no ratio of nothing', () => {
    assert.equal(ratioOf([], [1]), undefined);
    assert.equal(ratioOf([1], []), undefined);
  });
});
