import { chown, readFile, writeFile } from 'node:fs/promises';
import type { DNSConfig } from '../../cri/gen/api.ts';
import { errnoOf, invalidArgument } from '../../lib/errors.ts';
import { hostIdOf, type IdMappings } from '../../linux/id-mappings.ts';
import type { SandboxPaths } from '../store/paths.ts';

/** The resolver's own limits (resolv.conf(5)) are left to the caller; a line break would start a line of its own. */
export function resolvConfOf(dns: DNSConfig | undefined): string | undefined {
  if (dns === undefined || dns.servers.length + dns.searches.length + dns.options.length === 0) return undefined;
  for (const word of [...dns.servers, ...dns.searches, ...dns.options]) {
    if (/[\r\n]/.test(word)) throw invalidArgument(`dns_config: ${JSON.stringify(word)} contains a line break`);
  }
  return [
    ...(dns.searches.length === 0 ? [] : [`search ${dns.searches.join(' ')}`]),
    ...dns.servers.map((server) => `nameserver ${server}`),
    ...(dns.options.length === 0 ? [] : [`options ${dns.options.join(' ')}`]),
    '',
  ].join('\n');
}

/** The files that every container of the pod finds in /etc, unless it mounts its own there. */
export async function writeSandboxFiles(
  paths: SandboxPaths,
  {
    dns,
    hostname,
    idMappings,
  }: { readonly dns: DNSConfig | undefined; readonly hostname: string; readonly idMappings?: IdMappings },
): Promise<void> {
  const resolvConf = resolvConfOf(dns);
  await Promise.all([
    resolvConf === undefined ? copyOrEmpty('/etc/resolv.conf', paths.resolvConf) : write(paths.resolvConf, resolvConf),
    copyOrEmpty('/etc/hosts', paths.hosts),
    write(paths.hostname, `${hostname}\n`),
  ]);
  if (idMappings === undefined) return;
  // The pod's own root may change them, as elsewhere.
  const [uid, gid] = [hostIdOf(idMappings.uids, 0), hostIdOf(idMappings.gids, 0)];
  await Promise.all([paths.resolvConf, paths.hosts, paths.hostname].map((path) => chown(path, uid, gid)));
}

async function write(path: string, text: string): Promise<void> {
  await writeFile(path, text, { mode: 0o644 });
}

async function copyOrEmpty(source: string, target: string): Promise<void> {
  try {
    // Not copyFile: the source may be a link into a folder that other users cannot read, and the mode must be ours.
    await write(target, await readFile(source, 'utf8'));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    await write(target, '');
  }
}
