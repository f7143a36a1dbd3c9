import { access, readFile } from 'node:fs/promises';
import { execFile } from '../../src/linux/exec.ts';
import { silentLog } from '../../src/lib/log.ts';

interface OciFeatures {
  readonly linux?: { readonly mountExtensions?: { readonly idmap?: { readonly enabled?: boolean } } };
}

/** Subjects of the list of what is left out that have no excuse here, as the machine or the OCI runtime has what their specs need. */
export async function withoutExcuse(ociRuntime: string): Promise<string[]> {
  const subjects: string[] = [];
  if (await hasAppArmor()) subjects.push('AppArmor');
  // Which one `auto` takes is not known beforehand.
  if (ociRuntime !== 'auto' && (await mapsIds(ociRuntime))) subjects.push('user namespaces');
  return subjects;
}

/** As the suite looks for it. */
async function hasAppArmor(): Promise<boolean> {
  const enabled = await readFile('/sys/module/apparmor/parameters/enabled', 'utf8').catch(() => '');
  const parser = await access('/sbin/apparmor_parser').then(
    () => true,
    () => false,
  );
  return enabled.startsWith('Y') && parser;
}

/** Whether it can mount with other users' ids, which came with user namespaces that a kubelet can use. */
async function mapsIds(ociRuntime: string): Promise<boolean> {
  const op = { signal: AbortSignal.timeout(10_000), log: silentLog };
  const { code, stdout } = await execFile(op, ociRuntime, ['features']).catch(() => ({ code: 1, stdout: '' }));
  if (code !== 0) return false;
  const { linux } = JSON.parse(stdout) as OciFeatures;
  return linux?.mountExtensions?.idmap?.enabled === true;
}
