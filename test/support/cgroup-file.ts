import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { detectCgroups } from '../../src/linux/cgroups.ts';

/** What a limit is set to, on whatever layout: by the name of its v1 file and of its v2 file. */
export async function cgroupFile(path: string, controller: string, v1: string, v2: string): Promise<string> {
  const host = await detectCgroups();
  const trees = host.mode === 'v2' ? [host.unified] : host.v1;
  const tree = trees.find((one) => one?.controllers.includes(controller) === true);
  if (tree === undefined) throw new Error(`no controller ${controller} here`);
  return (await readFile(join(tree.mountPoint, path, host.mode === 'v2' ? v2 : v1), 'utf8')).trim();
}

/** Of a v1 tree: as somebody else would change it. */
export async function setCgroupFile(path: string, controller: string, file: string, value: string): Promise<void> {
  const tree = (await detectCgroups()).v1.find(({ controllers }) => controllers.includes(controller));
  if (tree === undefined) throw new Error(`no controller ${controller} here`);
  await writeFile(join(tree.mountPoint, path, file), value);
}

/** -1: none. */
export async function memoryLimit(path: string): Promise<number> {
  const text = await cgroupFile(path, 'memory', 'memory.limit_in_bytes', 'memory.max');
  return text === 'max' || Number(text) > 2 ** 60 ? -1 : Number(text);
}

/** Microseconds in a period, and the period. */
export async function cpuTime(path: string): Promise<[number, number]> {
  const { mode } = await detectCgroups();
  const texts =
    mode === 'v2'
      ? (await cgroupFile(path, 'cpu', '', 'cpu.max')).split(' ')
      : [await cgroupFile(path, 'cpu', 'cpu.cfs_quota_us', ''), await cgroupFile(path, 'cpu', 'cpu.cfs_period_us', '')];
  const [quota = '', period = ''] = texts;
  return [quota === 'max' ? -1 : Number(quota), Number(period)];
}
