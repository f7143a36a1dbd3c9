import { parentPort } from 'node:worker_threads';
import { GantryError, kindOf, messageOf } from '../../../lib/errors.ts';
import { faultsOfThisThread } from '../../../lib/fault-gate.ts';
import { fromNodeError } from '../../../linux/errno.ts';
import { realSyscalls } from '../../../linux/syscalls.ts';
import { runArchiveJob } from './archive-job.ts';
import { runLayerJob, type JobContext } from './layer-job.ts';
import type { FromWorker, Jobs, ToWorker } from './protocol.ts';
import { runRepairImpliedJob } from './repair-implied-job.ts';
import { runUsageJob } from './usage-job.ts';

/**
 * The snapshot thread. Jobs take turns (a piece of a stream, some directories), so a usage question does not wait for
 * the end of a large layer.
 */
const port = parentPort;
if (port === null) throw new Error('snapshot-worker.ts runs as a worker thread only');

const PROGRESS_BYTES = 1 << 20;
const sys = realSyscalls();
const faults = faultsOfThisThread();
const running = new Map<number, AbortController>();

function tell(message: FromWorker): void {
  port?.postMessage(message);
}

async function run(message: Extract<ToWorker, { kind: 'run' }>): Promise<void> {
  const { seq } = message;
  const controller = new AbortController();
  running.set(seq, controller);
  let told = 0;
  const context: JobContext = {
    sys,
    faults,
    signal: controller.signal,
    progress: (bytes) => {
      if (bytes - told < PROGRESS_BYTES) return;
      told = bytes;
      tell({ kind: 'progress', seq, bytes });
    },
  };
  try {
    tell({ kind: 'done', seq, result: await carryOut(message, context) });
  } catch (failure) {
    const error = describeNoRoom(failure);
    const details = error instanceof GantryError ? error.details : {};
    tell({ kind: 'failed', seq, error: { errorKind: kindOf(error), message: messageOf(error), details } });
  } finally {
    running.delete(seq);
  }
}

/** A disk that is full is no fault in here: Node's own error would reach the user as an internal one. */
function describeNoRoom(error: unknown): unknown {
  if (error instanceof GantryError) return error;
  const known = fromNodeError(error, 'writing a layer');
  return known.kind === 'ResourceExhausted' ? known : error;
}

async function carryOut(
  { jobKind, job }: Extract<ToWorker, { kind: 'run' }>,
  context: JobContext,
): Promise<Jobs[keyof Jobs]['result']> {
  switch (jobKind) {
    case 'layer':
      return await runLayerJob(job as Jobs['layer']['job'], context);
    case 'usage':
      return await runUsageJob((job as Jobs['usage']['job']).directory, context);
    case 'archive':
      return await runArchiveJob(job as Jobs['archive']['job'], context);
    case 'repair-implied':
      return runRepairImpliedJob(job as Jobs['repair-implied']['job'], context);
  }
}

port.on('message', (message: ToWorker) => {
  if (message.kind === 'run') void run(message);
  else running.get(message.seq)?.abort();
});
