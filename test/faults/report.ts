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

/** Step × outcome, in the order in which a life goes. A step that was not run has no row. */
export function tableOf(outcomes: readonly Outcome[]): string {
  const rows = ALL_POINTS.flatMap((point) => {
    const mine = outcomes.filter((outcome) => outcome.case.point === point);
    if (mine.length === 0) return [];
    return [`| ${point} | ${cell(mine, 'once')} | ${cell(mine, 'again')} |`];
  });
  const head = ['| killed at | then finished | recovery killed, too |', '| --- | --- | --- |'];
  return [...head, ...rows].join('\n');
}

function cell(outcomes: readonly Outcome[], variant: FaultCase['variant']): string {
  const outcome = outcomes.find((one) => one.case.variant === variant);
  if (outcome === undefined) return '';
  const { failure, case: fault } = outcome;
  const where = variant === 'again' ? `, at ${(fault.plans.at(-1) ?? '').replace('recovery/', '')}` : '';
  return `${failure === undefined ? 'right, nothing left' : 'FAILED'}${where}`;
}

/** The document with a new table between its marks. */
export function replaceTable(document: string, table: string): string {
  const [before, rest] = document.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new Error(`the document has no place for a table: ${BEGIN}`);
  return `${before}${BEGIN}\n\n${table}\n\n${END}${after}`;
}
