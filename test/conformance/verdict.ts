import { leftOutFor, type LeftOut } from './left-out.ts';
import type { SpecResult } from './spec-report.ts';

export interface Verdict {
  readonly passed: number;
  readonly failed: number;
  /** Those left out by us included; those not selected not. */
  readonly skipped: number;
  readonly ok: boolean;
  /** For people, without the line of counts. */
  readonly lines: readonly string[];
}

export interface VerdictRules {
  /** Specs that the run leaves out by its flags, as their full names begin. */
  readonly omitted: readonly string[];
  /** Subjects of our list that are no excuse here: what their specs need is there. */
  readonly withoutExcuse: readonly string[];
  /** Whether a spec that skips itself for a reason that we do not name spoils the run: for Gantry yes, for other runtimes no. */
  readonly strict: boolean;
}

interface Group {
  readonly leftOut: LeftOut;
  readonly reasons: Set<string>;
  count: number;
}

const MESSAGE_LINES = 8;
const LINE_CHARS = 400;
/** As the suite begins it, and its own tools. */
const PULL_FAILED = /^failed to pull image/im;

/** What is to be said of a run. Pure. */
export function judge(results: readonly SpecResult[], rules: VerdictRules): Verdict {
  const lines: string[] = [];
  const groups = new Map<LeftOut, Group>();
  const unnamed: string[] = [];
  let withoutImage = 0;
  let [passed, failed, skipped] = [0, 0, 0];
  const leaveOut = (leftOut: LeftOut, reason: string): void => {
    const group = groups.get(leftOut) ?? { leftOut, reasons: new Set<string>(), count: 0 };
    group.count++;
    if (reason !== '') group.reasons.add(reason);
    groups.set(leftOut, group);
    skipped++;
  };
  for (const { name, outcome, seconds } of results) {
    const leftOut = leftOutFor(name);
    switch (outcome.kind) {
      case 'passed':
        passed++;
        break;
      case 'failed':
        failed++;
        if (PULL_FAILED.test(outcome.message)) withoutImage++;
        lines.push(`FAILED  ${name} (${seconds.toFixed(1)} s)`, ...shortened(outcome.message));
        break;
      case 'skipped':
        if (leftOut !== undefined && !rules.withoutExcuse.includes(leftOut.subject)) leaveOut(leftOut, outcome.reason);
        else {
          skipped++;
          unnamed.push(`skipped ${name}: ${outcome.reason.split('\n')[0] ?? ''}`);
        }
        break;
      case 'not selected':
        if (leftOut !== undefined && rules.omitted.some((start) => name.startsWith(start))) leaveOut(leftOut, '');
        break;
    }
  }
  for (const { leftOut, count, reasons } of groups.values()) {
    const said = reasons.size === 0 ? '' : ` (${[...reasons].join('; ')})`;
    lines.push(`left out ${leftOut.subject}, ${String(count)} specs: ${leftOut.why}${said}`);
  }
  lines.push(...unnamed);
  if (withoutImage > 0) {
    lines.push(`images that could not be had (${String(withoutImage)} specs): --mirror names another place for them`);
  }
  const ran = passed + failed > 0;
  if (!ran) lines.push('no spec was run');
  return { passed, failed, skipped, ok: ran && failed === 0 && !(rules.strict && unnamed.length > 0), lines };
}

function shortened(message: string): string[] {
  const all = message.split('\n').filter((line) => line.trim() !== '');
  // What follows a lone brace is an error's innards, whose text stands before.
  const innards = all.findIndex((line) => line.trim() === '{');
  const lines = innards < 0 ? all : all.slice(0, innards);
  const more = lines.length > MESSAGE_LINES ? ['        …'] : [];
  return [...lines.slice(0, MESSAGE_LINES).map((line) => `        ${line.slice(0, LINE_CHARS)}`), ...more];
}

export function counts({ passed, failed, skipped }: Pick<Verdict, 'passed' | 'failed' | 'skipped'>): string {
  return `${String(passed)} passed, ${String(failed)} failed, ${String(skipped)} skipped`;
}
