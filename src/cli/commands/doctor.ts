import { isUnresolved, type DoctorReport, type Finding } from '../../lib/doctor.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { askGantry } from '../diagnosis-source.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { printable } from '../output/printable.ts';
import { columnWidths, formatRow } from '../output/table.ts';

export interface DoctorOptions {
  readonly fix: boolean;
  readonly runtimeEndpoint?: string;
  readonly format: OutputFormat;
}

/** `gantry doctor`: what is left over and what is missing; 1 while something is unresolved. */
export async function doctor(context: CliContext, options: DoctorOptions): Promise<ExitCode> {
  const { fix, format } = options;
  const report = await askGantry(context, options.runtimeEndpoint, (gantry) => gantry.doctor(context.op, { fix }));
  if (format === 'json' || format === 'yaml') await context.out.write(await structured(format, report));
  else for (const text of reportLines(report, { wide: format === 'wide' })) await line(context.out, text);
  return report.findings.some(isUnresolved) ? 1 : 0;
}

/** Others' things that are listed one by one unless everything is wanted. */
const FOREIGN_SHOWN = 10;

export function reportLines(report: DoctorReport, { wide }: { readonly wide: boolean }): string[] {
  const problems = report.findings.filter(({ problem }) => problem !== 'foreign');
  const foreign = report.findings.filter(({ problem }) => problem === 'foreign');
  return [
    ...problems.flatMap(problemLines),
    ...(problems.length === 0 ? [] : ['']),
    summary(report),
    ...report.notices.map((notice) => `Note: ${notice}`),
    ...foreignLines(foreign, wide ? foreign.length : FOREIGN_SHOWN),
  ].map(printable);
}

function problemLines({ problem, kind, key, message, action, outcome, error }: Finding): string[] {
  const verdict = outcome === 'fixed' ? 'fixed  ' : problem.padEnd(7);
  const lines = [`${verdict}  ${kind} ${key}`, `         ${message}`];
  if (outcome === 'failed') lines.push(`         not fixed: ${error ?? 'for an unknown reason'}`);
  else if (outcome === 'fixed') lines.push(`         done: ${action ?? ''}`);
  else if (action !== undefined) lines.push(`         --fix: ${action}`);
  return lines;
}

function summary({ instanceId, findings }: DoctorReport): string {
  const open = findings.filter(isUnresolved);
  const fixed = findings.filter(({ outcome }) => outcome === 'fixed').length;
  const done = fixed === 0 ? '' : `${things(fixed, 'problem')} fixed. `;
  if (open.length === 0) {
    return `${done}Gantry ${instanceId}: nothing of it is left over and nothing is missing.`;
  }
  return `${done}Gantry ${instanceId}: ${things(open.length, 'problem')}.${hint(open)}`;
}

/** What is blocked can be tried again, and that is all that is promised of it. */
function hint(open: readonly Finding[]): string {
  const untried = open.filter(({ action, outcome }) => action !== undefined && outcome === undefined);
  const fixable = untried.filter(({ problem }) => problem !== 'blocked').length;
  const again = untried.length - fixable;
  const all = (count: number): string => (count < open.length ? String(count) : count === 1 ? 'it' : 'all of them');
  if (untried.length === 0) {
    if (open.every(({ problem, outcome }) => problem === 'blocked' && outcome === undefined)) {
      return ' What is in the way is said above; it is tried again by itself.';
    }
    return open.some(({ outcome }) => outcome === 'failed')
      ? ' What is in the way is said above.'
      : ' None of them is for a program to solve.';
  }
  if (fixable === 0)
    return ` 'gantry doctor --fix' tries ${all(again)} again at once: what is in the way is said above.`;
  const rest = again === 0 ? '' : ` and tries ${String(again)} again`;
  return ` 'gantry doctor --fix' takes care of ${all(fixable)}${rest}.`;
}

function foreignLines(foreign: readonly Finding[], shown: number): string[] {
  if (foreign.length === 0) return [];
  // Keys are as long as paths and rules are: a third column would be off the screen.
  const rows = foreign.slice(0, shown).map(({ kind, key, message }) => [kind, `${key}: ${message}`]);
  const widths = columnWidths(rows);
  const rest = foreign.length - rows.length;
  return [
    '',
    "Others' things, left alone:",
    ...rows.map((row) => `  ${formatRow(row, widths)}`),
    ...(rest === 0 ? [] : [`  and ${String(rest)} more (-o wide lists them)`]),
  ];
}

function things(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${String(count)} ${noun}s`;
}
