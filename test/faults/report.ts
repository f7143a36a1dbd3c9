import { ALL_POINTS } from './planned-faults.ts';
import type { FaultCase } from './cases.ts';
import type { Outcome } from './fault-room.ts';

const BEGIN = '<!-- table: npm run test:faults -- --write -->';
const END = '<!-- end of table -->';

/** One line as it happens, with all there is to say about a failure. */
export function describeOutcome({ case: fault, seconds, failure }: Outcome): string {
  const head = `${failure === undefined ? 'ok    ' : 'FAILED'} ${fault.plans.join(' | ')} (${seconds.toFixed(1)} s)`;
  return failure === undefined ? head : `${head}\n${failure}`;
}

interface Row {
  readonly once: string;
  readonly again: string;
}

const HEAD = ['| killed at | then finished | recovery killed, too |', '| --- | --- | --- |'];

/** Step × outcome, in the order in which a life goes. A step that was not run has no row. */
export function tableOf(outcomes: readonly Outcome[], earlier: ReadonlyMap<string, Row> = new Map()): string {
  const rows = ALL_POINTS.flatMap((point) => {
    const mine = outcomes.filter((outcome) => outcome.case.point === point);
    const before = earlier.get(point);
    if (mine.length === 0 && before === undefined) return [];
    const once = cell(mine, 'once') ?? before?.once ?? '';
    return [`| ${point} | ${once} | ${cell(mine, 'again') ?? before?.again ?? ''} |`];
  });
  return [...HEAD, ...rows].join('\n');
}

function cell(outcomes: readonly Outcome[], variant: FaultCase['variant']): string | undefined {
  const outcome = outcomes.find((one) => one.case.variant === variant);
  if (outcome === undefined) return undefined;
  const { failure, case: fault } = outcome;
  const where = variant === 'again' ? `, at ${(fault.plans.at(-1) ?? '').replace('recovery/', '')}` : '';
  return `${failure === undefined ? 'right, nothing left' : 'FAILED'}${where}`;
}

/** The document with the outcomes in its table; what the table has of steps that were not run stays. */
export function updateTable(document: string, outcomes: readonly Outcome[]): string {
  const [before, rest] = document.split(BEGIN);
  const [table, after] = (rest ?? '').split(END);
  if (before === undefined || table === undefined || after === undefined) {
    throw new Error(`the document has no place for a table: ${BEGIN}`);
  }
  return `${before}${BEGIN}\n\n${tableOf(outcomes, rowsOf(table))}\n\n${END}${after}`;
}

function rowsOf(table: string): Map<string, Row> {
  const rows = table.split('\n').map((line) => line.split('|').map((part) => part.trim()));
  return new Map(rows.map(([, point = '', once = '', again = '']) => [point, { once, again }]));
}
