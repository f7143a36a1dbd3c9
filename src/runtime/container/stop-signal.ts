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

/** CRI's value for a signal number. */
export function criSignal(number: number): Signal {
  const first = parseSignal('SIGRTMIN');
  const last = parseSignal('SIGRTMAX');
  let name = signalName(number);
  if (number > first && number <= first + PLUS_UP_TO) name = `SIGRTMINPLUS${String(number - first)}`;
  else if (number > first && number < last) name = `SIGRTMAXMINUS${String(last - number)}`;
  return Object.entries(Signal).find(([key]) => key === name)?.[1] ?? Signal.RUNTIME_DEFAULT;
}
