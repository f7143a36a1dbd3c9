import type { JournalEntry } from '../../journal/journal.ts';
import type { Explanation, PendingWork } from '../../kube/gantry-extensions.ts';
import type { ObjectState } from '../../lib/object-state.ts';
import { ageOf, shortDuration, stepDuration } from './age.ts';
import { printable } from './printable.ts';
import { columnWidths, formatRow } from './table.ts';

const SHORT_ID = 13;

/** How things stand, what happened, and what is pending: as a page of text. */
export function explanationLines(title: string, explanation: Explanation, nowMs: number): string[] {
  const { entries, pending, objects, uid } = explanation;
  const first = entries[0];
  const lines = [`${title}${uid === undefined ? '' : ` (uid ${uid})`}`];
  if (objects.length > 0) lines.push('', ...objectLines(objects, nowMs), '');
  if (first !== undefined) {
    lines.push(`began ${new Date(first.wallMs).toISOString()}; times are seconds since then`, '');
    const rows = entries.map((entry) => row(entry, first.wallMs));
    const widths = columnWidths(rows.map((cells) => cells.slice(0, -1)));
    for (const cells of rows) lines.push(formatRow(cells, widths));
    lines.push('');
  }
  if (pending.length === 0) lines.push('Nothing is pending.');
  else lines.push('Still pending:', ...pending.map((work) => `  ${pendingLine(work, nowMs)}`));
  return lines.map(printable);
}

function objectLines(objects: readonly ObjectState[], nowMs: number): string[] {
  const rows = objects.map((state) => [
    `${state.kind} ${state.name}`,
    state.id.slice(0, SHORT_ID),
    `attempt ${String(state.attempt)}`,
    state.state,
    outcomeOf(state),
    when(state, nowMs),
  ]);
  const widths = columnWidths(rows);
  return rows.flatMap((cells, index) => {
    const message = objects[index]?.message;
    return [formatRow(cells, widths), ...(message === undefined ? [] : [`    ${message}`])];
  });
}

/** An unknown exit has a reason and no code. */
function outcomeOf({ exitCode, reason, state }: ObjectState): string {
  if (exitCode !== undefined) return `exit code ${String(exitCode)}${reason === undefined ? '' : ` (${reason})`}`;
  if (state.startsWith('exited')) return `exit code not known${reason === undefined ? '' : ` (${reason})`}`;
  return reason ?? '-';
}

function when({ createdAtWallMs, startedAtWallMs, finishedAtWallMs }: ObjectState, nowMs: number): string {
  const ago = (ms: number): string => `${shortDuration(nowMs - ms)} ago`;
  if (finishedAtWallMs !== undefined) {
    const ran = startedAtWallMs === undefined ? '' : `, after ${stepDuration(finishedAtWallMs - startedAtWallMs)}`;
    return `ended ${ago(finishedAtWallMs)}${ran}`;
  }
  return startedAtWallMs === undefined ? `made ${ago(createdAtWallMs)}` : `started ${ago(startedAtWallMs)}`;
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
  if (work.attempts !== undefined && work.attempts > 0) {
    parts.push(work.attempts === 1 ? '1 attempt' : `${String(work.attempts)} attempts`);
  }
  if (work.lastError !== undefined) parts.push(`last error: ${work.lastError}`);
  if (work.nextAttempt !== undefined) parts.push(`next try in ${shortDuration(Date.parse(work.nextAttempt) - nowMs)}`);
  return parts.join('; ');
}
