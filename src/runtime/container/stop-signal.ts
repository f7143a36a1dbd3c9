import { Signal } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { parseSignal, signalName, SIGTERM } from '../../linux/signals.ts';

/** CRI's names, where they differ from what everybody writes: `SIGRTMINPLUS3`, `SIGRTMAXMINUS14`, the old `SIGCLD`. */
function numberOf(signal: Signal): number {
  const name = Object.entries(Signal).find(([, value]) => value === signal)?.[0];
  if (name === undefined) throw invalidArgument(`stop_signal ${String(signal)} is no signal`);
  return parseSignal(name === 'SIGCLD' ? 'SIGCHLD' : name.replace('PLUS', '+').replace('MINUS', '-'));
}

/**
 * The signal that asks a container to stop: CRI's stop_signal, else the image's StopSignal, else SIGTERM. Throws InvalidArgument
 * when one of them is no signal.
 */
export function effectiveStopSignal(asked: Signal, image: string | undefined): number {
  if (asked !== Signal.RUNTIME_DEFAULT) return numberOf(asked);
  return image === undefined || image === '' ? SIGTERM : parseSignal(image);
}

/** CRI counts the lower half of the real-time signals up from the first, the upper half down from the last. */
const PLUS_UP_TO = 15;

const FIRST = parseSignal('SIGRTMIN');
const LAST = parseSignal('SIGRTMAX');

/** By number; looked up for each status that is asked for. */
const CRI_SIGNALS: readonly Signal[] = Array.from({ length: LAST + 1 }, (_, number) => findCriSignal(number));

/** CRI's value for a signal number. */
export function criSignal(number: number): Signal {
  return CRI_SIGNALS[number] ?? Signal.RUNTIME_DEFAULT;
}

function findCriSignal(number: number): Signal {
  let name = signalName(number);
  if (number > FIRST && number <= FIRST + PLUS_UP_TO) name = `SIGRTMINPLUS${String(number - FIRST)}`;
  else if (number > FIRST && number < LAST) name = `SIGRTMAXMINUS${String(LAST - number)}`;
  return Object.entries(Signal).find(([key]) => key === name)?.[1] ?? Signal.RUNTIME_DEFAULT;
}
