import type { RuntimeContext } from '../context.ts';
import type { SandboxRecord } from '../store/sandbox-record.ts';
import type { SandboxFound } from './decide-sandbox.ts';

/** Looks at what makes a sandbox READY: its pins, by inode, and its process where it has one. */
export async function lookAtSandbox(
  rt: Pick<RuntimeContext, 'bootId' | 'namespaces' | 'processes'>,
  { status }: SandboxRecord,
): Promise<SandboxFound> {
  const { infra } = status;
  const alive = infra === undefined ? undefined : await rt.processes.alive(infra.pid, infra.startTimeTicks);
  const lostPin = await firstLostPin(rt, status.pins);
  return {
    sameBoot: status.bootId === rt.bootId,
    infra: alive === undefined ? 'none' : alive ? 'alive' : 'gone',
    ...(lostPin === undefined ? {} : { lostPin }),
  };
}

async function firstLostPin(
  { namespaces }: Pick<RuntimeContext, 'namespaces'>,
  pins: SandboxRecord['status']['pins'],
): Promise<string | undefined> {
  for (const pin of pins) {
    const inode = await namespaces.inodeOf(pin.path);
    if (inode === undefined) return `its ${pin.kind} namespace is not on ${pin.path} any more`;
    if (inode !== pin.inode) return `${pin.path} is another ${pin.kind} namespace now`;
  }
  return undefined;
}
