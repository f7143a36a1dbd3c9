import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';

/** What the suite's HostIpc specs make, on the host, and leave there. */
const SEGMENT_BYTES = '1048576';

/** Shared memory segments like the suite's that nobody has attached now, in the namespaces of `within`; those that come later can be removed. */
export async function leftSegments(within: readonly string[]): Promise<{ removeNew(): Promise<void> }> {
  const before = await segments(within);
  return {
    removeNew: async () => {
      for (const id of await segments(within)) {
        if (!before.includes(id)) await run(within, 'ipcrm', '-m', id);
      }
    },
  };
}

async function segments(within: readonly string[]): Promise<string[]> {
  const table = await run(within, 'cat', '/proc/sysvipc/shm');
  return table.split('\n').flatMap((line) => {
    const [, id = '', , size, , , attached] = line.trim().split(/\s+/);
    return size === SEGMENT_BYTES && attached === '0' ? [id] : [];
  });
}

async function run(within: readonly string[], ...command: readonly string[]): Promise<string> {
  const [file = '', ...args] = [...within, ...command];
  const { stdout } = await execFile({ signal: AbortSignal.timeout(10_000), log: silentLog }, file, args);
  return stdout;
}
