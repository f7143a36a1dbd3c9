import { join } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import { messageOf } from '../../lib/errors.ts';
import { NO_FAULTS } from '../../lib/fault-points.ts';
import { namesIn } from '../../lib/may-be-gone.ts';
import { readConfigFolder } from './config-folder.ts';
import { deleteNetwork } from './plugin-chain.ts';
import { dataDirsOf, DEFAULT_DATA_DIR, giveBack, reservationsIn } from './reservations.ts';

export interface LostConnectionDeps {
  readonly confDir: string;
  readonly binDirs: readonly string[];
}

const INTERFACE = 'eth0';
/** portmap takes away all that has the id, whatever the ports, but does nothing where it is told of none. */
const ANY_PORT = { hostPort: 1, containerPort: 1, protocol: 'tcp' };

/**
 * Takes down the connection of a sandbox of ours of which nothing is written down any more, once nothing of it runs: DEL by its id alone,
 * with all plug-ins of the network that is configured now, and then what host-local still has for that id in any network, as it may have
 * been another one. Its id was made by us and is nobody else's, and without a result of ADD no plug-in is told an address, which could be
 * another pod's by now. One attempt; what fails is logged.
 */
export async function takeDownLost(op: Op, { confDir, binDirs }: LostConnectionDeps, sandboxId: string): Promise<void> {
  const folder = await readConfigFolder(confDir);
  const dirs = new Set([DEFAULT_DATA_DIR]);
  if (folder.kind === 'found') {
    const network = folder.config;
    for (const dir of dataDirsOf(network)) dirs.add(dir);
    const args = { IgnoreUnknown: '1', K8S_POD_INFRA_CONTAINER_ID: sandboxId };
    const attachment = { containerId: sandboxId, ifName: INTERFACE, args, capabilities: { portMappings: [ANY_PORT] } };
    const failures = await deleteNetwork(op, { binDirs, network, attachment, faults: NO_FAULTS }, undefined, undefined);
    for (const { error } of failures) {
      op.log.warn({ sandboxId, network: network.name, error: messageOf(error) }, 'CNI DEL of a lost sandbox failed');
    }
  }
  for (const dir of dirs) {
    for (const network of await namesIn(dir)) {
      for (const found of await reservationsIn(join(dir, network))) {
        if (found.id !== sandboxId) continue;
        await giveBack(found);
        op.log.info({ ...found }, 'the address of a lost sandbox was given back');
      }
    }
  }
}
