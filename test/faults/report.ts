import { ALL_STEPS, type FaultCase } from './cases.ts';
import type { Outcome } from './lives.ts';

const BEGIN = '<!-- table: npm run test:faults -- --write -->';
const END = '<!-- end of table -->';

/** One line as it happens, with all there is to say about a failure. */
export function describeOutcome({ case: fault, seconds, kills, failure, lacking }: Outcome): string {
  if (lacking !== undefined) return `not run ${fault.plans.join(' | ')}: ${lacking}`;
  const recoveries = fault.variant === 'again' ? ` and ${String(kills - fault.plans.length)} recoveries` : '';
  const head = `${failure === undefined ? 'ok    ' : 'FAILED'} ${fault.plans.join(' | ')}${recoveries} (${seconds.toFixed(1)} s)`;
  return failure === undefined ? head : `${head}\n${failure}`;
}

interface Row {
  readonly once: string;
  readonly again: string;
}

const HEAD = ['| killed at | then finished | recovery killed, too |', '| --- | --- | --- |'];

/** Step × outcome, in the order in which a life goes. A step that was not run has no row. */
export function tableOf(outcomes: readonly Outcome[], earlier: ReadonlyMap<string, Row> = new Map()): string {
  const rows = ALL_STEPS.flatMap((step) => {
    const mine = outcomes.filter((outcome) => outcome.case.step === step && outcome.lacking === undefined);
    const before = earlier.get(step);
    if (mine.length === 0 && before === undefined) return [];
    const once = cell(mine, 'once') ?? before?.once ?? '';
    return [`| ${step} | ${once} | ${cell(mine, 'again') ?? before?.again ?? ''} |`];
  });
  return [...HEAD, ...rows].join('\n');
}

function cell(outcomes: readonly Outcome[], variant: FaultCase['variant']): string | undefined {
  const outcome = outcomes.find((one) => one.case.variant === variant);
  if (outcome === undefined) return undefined;
  const { failure, kills, case: fault } = outcome;
  const recoveries = variant === 'again' ? `; ${String(kills - fault.plans.length)} recoveries killed` : '';
  return `${failure === undefined ? 'right, nothing left' : 'FAILED'}${recoveries}`;
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

/** What the document's table says. */
export function rowsOf(table: string): Map<string, Row> {
  const rows = table.split('\n').map((line) => line.split('|').map((part) => part.trim()));
  return new Map(rows.map(([, step = '', once = '', again = '']) => [step, { once, again }]));
}
