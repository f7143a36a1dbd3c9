import { invalidArgument, notFound } from '../../lib/errors.ts';
import type { Explanation, PendingWork } from '../../kube/gantry-extensions.ts';
import type { JournalEntry } from '../../journal/journal.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { ageOf, stepDuration } from '../output/age.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { columnWidths, formatRow } from '../output/table.ts';
import { resourceNamed } from '../resources.ts';

export interface ExplainOptions {
  readonly namespace: string;
  readonly uid?: string;
  readonly format: OutputFormat;
}

/** `gantry explain pod NAME`: the pod's life so far, in order, with the time each step took and why it happened. */
export async function explain(
  context: CliContext,
  args: readonly string[],
  options: ExplainOptions,
): Promise<ExitCode> {
  const [kind, name] = args.length === 1 ? (args[0] ?? '').split('/') : args;
  if (kind === undefined || name === undefined || name === '' || args.length > 2)
    throw invalidArgument('usage: gantry explain pod NAME');
  if (resourceNamed(kind).resource !== 'pods') throw invalidArgument(`only pods have a life to explain, not ${kind}`);
  const { gantry } = await context.api();
  const explanation = await gantry.explain(context.op, {
    namespace: options.namespace,
    name,
    ...(options.uid === undefined ? {} : { uid: options.uid }),
  });
  if (options.format === 'json' || options.format === 'yaml') {
    await context.out.write(structured(options.format, explanation));
    return 0;
  }
  if (explanation.entries.length === 0 && explanation.pending.length === 0) {
    throw notFound(`the journal has nothing of a pod "${name}" in namespace "${options.namespace}"`);
  }
  for (const text of explanationLines(name, explanation, context.clock.wallMs())) await line(context.out, text);
  return 0;
}

export function explanationLines(name: string, explanation: Explanation, nowMs: number): string[] {
  const { entries, pending, uid } = explanation;
  const first = entries[0];
  const lines = [`pod ${name}${uid === undefined ? '' : ` (uid ${uid})`}`];
  if (first !== undefined) {
    lines.push(`began ${new Date(first.wallMs).toISOString()}; times are seconds since then`, '');
    const rows = entries.map((entry) => row(entry, first.wallMs));
    const widths = columnWidths(rows.map((cells) => cells.slice(0, -1)));
    for (const cells of rows) lines.push(formatRow(cells, widths));
  }
  lines.push('');
  if (pending.length === 0) lines.push('Nothing is pending.');
  else lines.push('Still pending:', ...pending.map((work) => `  ${pendingLine(work, nowMs)}`));
  return lines;
}

function row(entry: JournalEntry, zeroMs: number): string[] {
  const mark = entry.outcome === 'failed' ? '!' : entry.outcome === 'blocked' ? '#' : ' ';
  const took = entry.durationMs === undefined ? '' : stepDuration(entry.durationMs);
  const why = entry.why === undefined ? '' : `  (${entry.why})`;
  return [
    `+${((entry.wallMs - zeroMs) / 1000).toFixed(3)}`,
    mark,
    took,
    entry.subject.containerName ?? '-',
    `${entry.message}${why}`,
  ];
}

function pendingLine(work: PendingWork, nowMs: number): string {
  const parts = [work.message];
  if (work.since !== undefined) parts.push(`since ${ageOf(work.since, nowMs)}`);
  if (work.attempts !== undefined && work.attempts > 0) parts.push(`${work.attempts} attempts`);
  if (work.lastError !== undefined) parts.push(`last error: ${work.lastError}`);
  return parts.join('; ');
}
