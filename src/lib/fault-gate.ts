import { MessageChannel, workerData, type MessagePort, type WorkerOptions } from 'node:worker_threads';
import { GantryError } from './errors.ts';
import { NO_FAULTS, type FaultPoint, type FaultPoints } from './fault-points.ts';

/** What a worker thread is handed, so that its steps can be fault points, too. */
interface FaultGate {
  /** To the thread that decides. */
  readonly port: MessagePort;
  /** One Int32: what was decided. */
  readonly answer: SharedArrayBuffer;
}

const [UNDECIDED, GO_ON, FAIL] = [0, 1, 2];

/** To be spread into the options of a worker. Nothing in a normal run. */
export function faultGate(faults: FaultPoints): Pick<WorkerOptions, 'workerData' | 'transferList'> {
  if (faults === NO_FAULTS) return {};
  const { port1, port2 } = new MessageChannel();
  const answer = new SharedArrayBuffer(4);
  const decided = new Int32Array(answer);
  port1.on('message', (point: FaultPoint) => {
    const decide = (decision: number): void => {
      Atomics.store(decided, 0, decision);
      Atomics.notify(decided, 0);
    };
    Promise.try(() => faults.reach(point)).then(
      () => decide(GO_ON),
      () => decide(FAIL),
    );
  });
  port1.unref();
  const gate: FaultGate = { port: port2, answer };
  return { workerData: { faultGate: gate }, transferList: [port2] };
}

/**
 * For a worker thread: it stands still at a point until the main thread, which counts and kills, has decided. So nothing of the next
 * step has happened when the process ends.
 */
export function faultsOfThisThread(): Pick<FaultPoints, 'pass'> {
  const gate = (workerData as { readonly faultGate?: FaultGate } | null)?.faultGate;
  if (gate === undefined) return NO_FAULTS;
  const decided = new Int32Array(gate.answer);
  return {
    pass: (point) => {
      Atomics.store(decided, 0, UNDECIDED);
      gate.port.postMessage(point);
      Atomics.wait(decided, 0, UNDECIDED);
      if (Atomics.load(decided, 0) === FAIL) throw new GantryError('Unavailable', `planned failure at ${point}`);
    },
  };
}
