import { parentPort } from 'node:worker_threads';
import { faultsOfThisThread } from '../lib/fault-gate.ts';
import { answerRequest, type PeerRequest } from './peer-protocol.ts';
import { planTree, removeTree } from './remove-tree.ts';
import type { RemoveThreadRequest } from './safe-remove.ts';
import { realSyscalls } from './syscalls.ts';

/** The thread of SafeRemove. */

const calls = realSyscalls();
const faults = faultsOfThisThread();

async function handle({ call, request, abort }: RemoveThreadRequest): Promise<unknown> {
  const flag = new Int32Array(abort);
  const hooks = {
    aborted: () => Atomics.load(flag, 0) !== 0,
    removed: () => faults.pass('remove-tree/entry-removed'),
  };
  return call === 'remove' ? await removeTree(calls, request, hooks) : await planTree(calls, request, hooks);
}

parentPort?.on('message', (message: PeerRequest) => {
  void answerRequest(message, handle, (reply) => parentPort?.postMessage(reply));
});
