import { NamespaceMode, type IDMapping, type PodSandboxConfig } from '../../cri/gen/api.ts';
import { failedPrecondition, invalidArgument } from '../../lib/errors.ts';
import type { IdMapping, IdMappings } from '../../linux/id-mappings.ts';
import type { OciFeatures } from '../oci/runtime-features.ts';
import type { SandboxNamespaces } from '../store/sandbox-record.ts';

const MAX_ID = 0xffff_fffe;

/**
 * The user namespace that a pod asks for; undefined: the host's. Pure. Throws InvalidArgument for what cannot be, FailedPrecondition where the
 * OCI runtime or the kernel cannot.
 */
export function userNamespaceOf(
  config: PodSandboxConfig,
  namespaces: SandboxNamespaces,
  features: Pick<OciFeatures, 'userNamespaces'>,
): IdMappings | undefined {
  const options = config.linux?.securityContext?.namespaceOptions?.usernsOptions;
  if (options === undefined) return undefined;
  if (options.mode === NamespaceMode.NODE) {
    if (options.uids.length + options.gids.length === 0) return undefined;
    throw invalidArgument("userns_options: mappings, and mode NODE: the host's users");
  }
  if (options.mode !== NamespaceMode.POD) {
    throw invalidArgument(`user namespace mode ${String(options.mode)} is none of POD and NODE`);
  }
  const mappings = { uids: mapping('uids', options.uids), gids: mapping('gids', options.gids) };
  for (const [kind, mode] of Object.entries(namespaces)) {
    if (mode === 'host') throw invalidArgument(`a pod with a user namespace cannot have the host's ${kind} namespace`);
  }
  if (!features.userNamespaces) {
    throw failedPrecondition(
      'user namespaces: the OCI runtime does not have them (runc 1.2, crun 1.9 or later), or this kernel maps no layers',
    );
  }
  return mappings;
}

/** One range that begins with root, as every runtime of the field wants it. */
function mapping(name: string, given: readonly IDMapping[]): IdMapping[] {
  const [first, ...others] = given;
  if (first === undefined || others.length > 0) {
    throw invalidArgument(`userns_options.${name}: one mapping is needed, ${String(given.length)} are given`);
  }
  const { containerId, hostId, length } = first;
  if (containerId !== 0) throw invalidArgument(`userns_options.${name}: container id 0 is not mapped`);
  if (length === 0 || hostId + length - 1 > MAX_ID) {
    throw invalidArgument(`userns_options.${name}: ${String(length)} ids from ${String(hostId)} on are no range`);
  }
  return [{ containerId, hostId, length }];
}
