import { createHash } from 'node:crypto';
import type { NetworkConfig } from './network-config.ts';

/** What the default network is on this host; part of every plan that uses it. */
export interface DefaultNetwork {
  readonly bridge: string;
  readonly subnet: string;
  readonly mtu?: number;
}

/** 0.4.0 is known to every plug-in release in use, and results carry all that is needed. */
const CNI_VERSION = '0.4.0';
const LONGEST_INTERFACE_NAME = 15;

/** The bridge's name: the instance id where it fits, else a digest of it. */
export function bridgeName(instance: string): string {
  const plain = `gtry-${instance}`;
  if (plain.length <= LONGEST_INTERFACE_NAME && /^[a-z0-9-]+$/.test(plain)) return plain;
  return `gtry-${digest(instance).slice(0, 10)}`;
}

/** A number out of the instance id, the same every time. */
export function instanceSeed(instance: string): number {
  return parseInt(digest(instance).slice(0, 8), 16);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export function networkName(instance: string): string {
  return `gantry-${instance.replace(/[^a-zA-Z0-9_.-]/g, '-')}`;
}

/** The configuration that no file holds: a bridge with addresses of its own; masquerading is one rule of ours per subnet. */
export function defaultConfig(
  instance: string,
  ipamDir: string,
  { bridge, subnet, mtu }: DefaultNetwork,
): NetworkConfig {
  return {
    name: networkName(instance),
    cniVersion: CNI_VERSION,
    plugins: [
      {
        type: 'bridge',
        bridge,
        isGateway: true,
        // One rule for the subnet instead of one per pod: most of CNI's time goes into those.
        ipMasq: false,
        hairpinMode: true,
        ...(mtu === undefined ? {} : { mtu }),
        ipam: { type: 'host-local', dataDir: ipamDir, ranges: [[{ subnet }]], routes: [{ dst: '0.0.0.0/0' }] },
      },
      { type: 'portmap', capabilities: { portMappings: true }, snat: true },
    ],
  };
}
