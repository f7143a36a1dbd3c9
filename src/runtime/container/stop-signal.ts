import { Signal } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { parseSignal, signalName } from '../../linux/signals.ts';

const SIGTERM = 15;

/** CRI's own names, where they differ from what everybody writes: `SIGRTMINPLUS3`, `SIGRTMAXMINUS14`. */
function numberOf(signal: Signal): number {
  const name = Object.entries(Signal).find(([, value]) => value === signal)?.[0];
  if (name === undefined) throw invalidArgument(`stop_signal ${String(signal)} is no signal`);
  return parseSignal(name.replace('PLUS', '+').replace('MINUS', '-'));
}

/**
 * The signal that asks a container to stop: CRI's stop_signal, else the image's StopSignal, else SIGTERM. Throws InvalidArgument
 * when one of them is no signal.
 */
export function effectiveStopSignal(asked: Signal, image: string | undefined): number {
  if (asked !== Signal.RUNTIME_DEFAULT) return numberOf(asked);
  return image === undefined || image === '' ? SIGTERM : parseSignal(image);
}

/** CRI's value for a signal number; the first of several names of one number. */
export function criSignal(number: number): Signal {
  const wanted = signalName(number);
  for (const value of Object.values(Signal)) {
    if (value === Signal.RUNTIME_DEFAULT) continue;
    const ours = numberOf(value);
    if (ours === number && (signalNameOf(value) === wanted || isRealtime(number))) return value;
  }
  return Signal.RUNTIME_DEFAULT;
}

function signalNameOf(value: Signal): string {
  return Object.entries(Signal).find(([, candidate]) => candidate === value)?.[0] ?? '';
}

function isRealtime(number: number): boolean {
  return number >= parseSignal('SIGRTMIN');
}
