const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** How long ago, the way kubectl shortens it: `5s`, `3m20s`, `12m`, `2h5m`, `9h`, `2d3h`, `40d`, `2y10d`. */
export function shortDuration(ms: number): string {
  if (ms < 0) return '0s';
  if (ms < 2 * MINUTE) return `${whole(ms, SECOND)}s`;
  if (ms < 10 * MINUTE) return pair(ms, MINUTE, 'm', SECOND, 's');
  if (ms < 3 * HOUR) return `${whole(ms, MINUTE)}m`;
  if (ms < 8 * HOUR) return pair(ms, HOUR, 'h', MINUTE, 'm');
  if (ms < 2 * DAY) return `${whole(ms, HOUR)}h`;
  if (ms < 8 * DAY) return pair(ms, DAY, 'd', HOUR, 'h');
  if (ms < 2 * YEAR) return `${whole(ms, DAY)}d`;
  if (ms < 8 * YEAR) return pair(ms, YEAR, 'y', DAY, 'd');
  return `${whole(ms, YEAR)}y`;
}

function whole(ms: number, unit: number): number {
  return Math.floor(ms / unit);
}

function pair(ms: number, unit: number, letter: string, rest: number, restLetter: string): string {
  const remainder = whole(ms % unit, rest);
  return remainder === 0 ? `${whole(ms, unit)}${letter}` : `${whole(ms, unit)}${letter}${remainder}${restLetter}`;
}

/** Age of an RFC 3339 time; `<unknown>` where there is none. */
export function ageOf(time: string | undefined, nowMs: number): string {
  if (time === undefined) return '<unknown>';
  const then = Date.parse(time);
  return Number.isNaN(then) ? '<unknown>' : shortDuration(nowMs - then);
}

/** How long a step took, with the unit that reads best: `0.4 ms`, `12 ms`, `3.1 s`, `2m5s`. */
export function stepDuration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${ms.toFixed(0)} ms`;
  if (ms < 100_000) return `${(ms / 1_000).toFixed(1)} s`;
  return shortDuration(ms);
}
