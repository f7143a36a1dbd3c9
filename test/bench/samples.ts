import { quantile } from '../support/scale.ts';
import type { Network, Row, RowKey } from './rows.ts';

/** Us, and whom we are measured against. */
export type Party = 'gantry' | 'other';

/** The figures of one table, each in its row's unit. */
export class Samples {
  readonly #values = new Map<RowKey, Record<Party, number[]>>();

  add(row: RowKey, party: Party, value: number): void {
    const both = this.#values.get(row) ?? { gantry: [], other: [] };
    both[party].push(value);
    this.#values.set(row, both);
  }

  of(row: RowKey): Readonly<Record<Party, readonly number[]>> {
    return this.#values.get(row) ?? { gantry: [], other: [] };
  }
}

/** A table in Markdown of the rows that were measured; `other` is the name of the other party. */
export function tableOf(rows: readonly Row[], samples: Samples, network: Network, other: string): string[] {
  const lines = [
    `| operation | Gantry p50 / p95 | ${other} p50 / p95 | ratio | goal | |`,
    '| --- | ---: | ---: | ---: | ---: | --- |',
  ];
  for (const row of rows) {
    const { gantry, other: theirs } = samples.of(row.key);
    if (gantry.length === 0) continue;
    const ratio = ratioOf(gantry, theirs);
    const goal = row.goal[network];
    const verdict = ratio === undefined || goal === undefined ? '' : ratio <= goal ? 'met' : '**missed**';
    const cells = [
      row.title,
      figures(gantry, row.unit),
      figures(theirs, row.unit),
      ratio === undefined ? '–' : ratio.toFixed(2),
      goal === undefined ? '–' : `≤ ${goal.toFixed(1)}`,
      verdict,
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  return lines;
}

/** Of the middle values. */
export function ratioOf(ours: readonly number[], theirs: readonly number[]): number | undefined {
  if (ours.length === 0 || theirs.length === 0) return undefined;
  return quantile(ours, 0.5) / quantile(theirs, 0.5);
}

function figures(values: readonly number[], unit: Row['unit']): string {
  if (values.length === 0) return '–';
  const shown = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
  const p50 = shown(quantile(values, 0.5));
  // One value, or two, have no spread worth telling.
  return values.length < 3 ? `${p50} ${unit}` : `${p50} / ${shown(quantile(values, 0.95))} ${unit}`;
}
