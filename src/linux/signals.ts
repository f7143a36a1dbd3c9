import { constants } from 'node:os';
import { invalidArgument } from '../lib/errors.ts';

export const { SIGKILL, SIGTERM } = constants.signals;

const SIGRTMIN = 34; // glibc's and musl's first; 32 and 33 are taken by the thread library
const SIGRTMAX = 64;

// Another name for a number that has one already: never shown, but accepted.
const ALIASES = new Set(['SIGIOT', 'SIGPOLL', 'SIGUNUSED', 'SIGCLD']);

const NUMBERS: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));
const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(constants.signals)
    .filter(([name]) => !ALIASES.has(name))
    .map(([name, number]) => [number, name]),
);

/**
 * The number of a signal as image configurations and users write it: `SIGTERM`, `term`, `15`, `SIGRTMIN+3`,
 * `RTMAX-1`. Throws InvalidArgument for anything else.
 */
export function parseSignal(text: string): number {
  const wanted = text.trim().toUpperCase();
  if (/^\d{1,3}$/.test(wanted)) {
    const number = Number(wanted);
    if (number >= 1 && number <= SIGRTMAX) return number;
    throw invalidArgument(`${text}: no such signal`);
  }
  const name = wanted.startsWith('SIG') ? wanted : `SIG${wanted}`;
  const known = NUMBERS.get(name);
  if (known !== undefined) return known;
  const realtime = /^SIGRTM(IN|AX)(?:([+-])(\d{1,2}))?$/.exec(name);
  if (realtime !== null) {
    const offset = Number(realtime[3] ?? '0') * (realtime[2] === '-' ? -1 : 1);
    const number = (realtime[1] === 'IN' ? SIGRTMIN : SIGRTMAX) + offset;
    if (number >= SIGRTMIN && number <= SIGRTMAX) return number;
  }
  throw invalidArgument(`${text}: no such signal`);
}

/** `SIGTERM` for 15, `SIGRTMIN+3` for 37. A number that is no signal is given back as text. */
export function signalName(number: number): string {
  const name = NAMES.get(number);
  if (name !== undefined) return name;
  if (number === SIGRTMIN) return 'SIGRTMIN';
  if (number === SIGRTMAX) return 'SIGRTMAX';
  if (number > SIGRTMIN && number < SIGRTMAX) return `SIGRTMIN+${String(number - SIGRTMIN)}`;
  return String(number);
}
