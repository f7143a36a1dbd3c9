import { readFile, statfs } from 'node:fs/promises';
import os from 'node:os';
import { namesIn } from '../../lib/may-be-gone.ts';
import { parseResolvConf, type DnsConfig } from '../sync/dns.ts';

/** The addresses of this machine, the one that its default route leaves by first. */
export function hostAddresses(
  routes: string,
  interfaces: Readonly<Record<string, readonly os.NetworkInterfaceInfo[] | undefined>>,
): string[] {
  const first = defaultInterface(routes);
  const names = Object.keys(interfaces).sort((a, b) => Number(b === first) - Number(a === first));
  const usable = names
    .filter((name) => name === first || first === undefined)
    .flatMap((name) => interfaces[name] ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'));
  const v4 = usable.filter(({ family }) => family === 'IPv4');
  const v6 = usable.filter(({ family }) => family === 'IPv6');
  const addresses = [...v4.slice(0, 1), ...v6.slice(0, 1)].map(({ address }) => address);
  return addresses.length === 0 ? ['127.0.0.1'] : addresses;
}

/** Of /proc/net/route: the line whose destination is 0.0.0.0. */
function defaultInterface(routes: string): string | undefined {
  const lines = routes
    .split('\n')
    .slice(1)
    .map((line) => line.split('\t'));
  return lines.find(([, destination]) => destination === '00000000')?.[0];
}

export async function readHostAddresses(): Promise<string[]> {
  return hostAddresses(await readText('/proc/net/route'), os.networkInterfaces());
}

/** The host's resolver, and what systemd-resolved asks where the host asks systemd-resolved. */
export async function readHostDns(): Promise<{ host: DnsConfig; upstream: DnsConfig | undefined }> {
  const [host, upstream] = await Promise.all([
    readText('/etc/resolv.conf'),
    readText('/run/systemd/resolve/resolv.conf'),
  ]);
  return { host: parseResolvConf(host), upstream: upstream === '' ? undefined : parseResolvConf(upstream) };
}

export function readHostsFile(): Promise<string> {
  return readText('/etc/hosts');
}

/** Size of the file system that a path is on. */
export async function fileSystemBytes(path: string): Promise<number> {
  const { blocks, bsize } = await statfs(path);
  return blocks * bsize;
}

/** '' for a file that is not there. */
async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}

/** Whether the kernel has AppArmor, and it is on. */
export async function hasAppArmor(): Promise<boolean> {
  return (await readText('/sys/module/apparmor/parameters/enabled')).trim() === 'Y';
}

const HUGE_PAGES = '/sys/kernel/mm/hugepages';

/** Bytes of huge pages that the machine has set aside, by the size of a page. The sizes that there are do not change while it runs. */
export async function readHugePages(folder = HUGE_PAGES): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  for (const name of (await namesIn(folder)).sort()) {
    const kib = /^hugepages-(\d+)kB$/.exec(name)?.[1];
    if (kib === undefined) continue;
    const pageBytes = Number(kib) * 1024;
    found.set(pageBytes, pageBytes * Number((await readText(`${folder}/${name}/nr_hugepages`)).trim()));
  }
  return found;
}
