import type { HostAlias } from '../../kube/objects.ts';

/** A pod's /etc/hosts. On the host's network it is the host's own file; both get the pod's aliases. */
export function hostsFile(input: {
  readonly hostname: string;
  readonly ips: readonly string[];
  readonly aliases: readonly HostAlias[];
  /** The host's /etc/hosts, for a pod on its network. */
  readonly hostFile?: string;
}): string {
  const base =
    input.hostFile ??
    [
      '# Written by Gantry for this pod.',
      '127.0.0.1\tlocalhost',
      '::1\tlocalhost ip6-localhost ip6-loopback',
      'fe00::0\tip6-localnet',
      'fe00::0\tip6-mcastprefix',
      'fe00::1\tip6-allnodes',
      'fe00::2\tip6-allrouters',
      ...input.ips.map((ip) => `${ip}\t${input.hostname}`),
      '',
    ].join('\n');
  if (input.aliases.length === 0) return base;
  const lines = input.aliases.map(({ ip = '', hostnames = [] }) => `${ip}\t${hostnames.join('\t')}`);
  return `${base.endsWith('\n') ? base : `${base}\n`}\n# Entries added by hostAliases.\n${lines.join('\n')}\n`;
}

/** `spec.hostname`, else the pod's name; cut to what the kernel takes, without a dash or dot at the end. */
export function hostnameOf(pod: { readonly name: string; readonly spec: { readonly hostname?: string } }): string {
  const name = pod.spec.hostname === undefined || pod.spec.hostname === '' ? pod.name : pod.spec.hostname;
  return name.slice(0, 63).replace(/[-.]+$/, '');
}
