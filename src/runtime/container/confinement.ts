import {
  SecurityProfile_ProfileType,
  type ContainerConfig,
  type LinuxContainerSecurityContext,
  type SELinuxOption,
} from '../../cri/gen/api.ts';
import { failedPrecondition, invalidArgument, notImplemented } from '../../lib/errors.ts';
import { decideCapabilities } from '../oci/capabilities.ts';
import type { HostFacts } from '../oci/container-spec-input.ts';

type Security = LinuxContainerSecurityContext | undefined;

export type AppArmorChoice =
  { readonly kind: 'default' } | { readonly kind: 'unconfined' } | { readonly kind: 'named'; readonly name: string };

const LOCALHOST = 'localhost/';
const UNCONFINED: AppArmorChoice = { kind: 'unconfined' };

/** Which AppArmor profile is asked for. Nothing said: the default one. Privileged: none. Throws InvalidArgument. */
export function appArmorChoiceOf(security: Security): AppArmorChoice {
  if (security?.privileged === true) return UNCONFINED;
  // The newer field counts; the text is from before there was one.
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- kubelets before 1.30 fill this one alone
  if (security?.apparmor === undefined) return choiceOfText(security?.apparmorProfile ?? '');
  const { profileType, localhostRef } = security.apparmor;
  switch (profileType) {
    case SecurityProfile_ProfileType.RuntimeDefault:
      return { kind: 'default' };
    case SecurityProfile_ProfileType.Unconfined:
      return UNCONFINED;
    case SecurityProfile_ProfileType.Localhost:
      return named(localhostRef);
  }
}

function choiceOfText(text: string): AppArmorChoice {
  if (text === 'unconfined') return UNCONFINED;
  if (text === '' || text === 'runtime/default') return { kind: 'default' };
  if (text.startsWith(LOCALHOST)) return named(text);
  throw invalidArgument(`AppArmor profile "${text}": neither unconfined, runtime/default nor localhost/…`);
}

function named(text: string): AppArmorChoice {
  const name = text.startsWith(LOCALHOST) ? text.slice(LOCALHOST.length) : text;
  if (name === '') throw invalidArgument('an AppArmor profile of type Localhost needs a name');
  return { kind: 'named', name };
}

/**
 * Throws NotImplemented for an SELinux label where SELinux is on, FailedPrecondition where it is not, for a privileged container as for any other: to
 * leave out what confines is not ours to decide. An empty label asks for nothing.
 */
export function demandNoLabel(options: SELinuxOption | undefined, { seLinux }: Pick<HostFacts, 'seLinux'>): void {
  const { user = '', role = '', type = '', level = '' } = options ?? {};
  const asked = Object.entries({ user, role, type, level }).filter(([, part]) => part !== '');
  if (asked.length === 0) return;
  const what = `linux.security_context.selinux_options (${asked.map((part) => part.join(' ')).join(', ')})`;
  const wayOut = 'the pod runs without them if it has no seLinuxOptions';
  if (seLinux) throw notImplemented(`${what}: SELinux labels are not supported yet; ${wayOut}`);
  throw failedPrecondition(`${what}: this host has no SELinux, so there are no labels; ${wayOut}`);
}

/**
 * What is asked for and not given, in words: capabilities that the daemon itself has not, and new labels for files, which kubelets ask for without
 * knowing the host. Throws what {@link demandNoLabel} throws.
 */
export function notGiven(
  { linux, mounts }: Pick<ContainerConfig, 'linux' | 'mounts'>,
  host: Pick<HostFacts, 'seLinux' | 'boundingCapabilities'>,
): string[] {
  const security = linux?.securityContext;
  demandNoLabel(security?.selinuxOptions, host);
  const why = host.seLinux ? 'SELinux labels are not supported yet' : 'this host has no SELinux';
  const words = mounts
    .filter(({ selinuxRelabel }) => selinuxRelabel)
    .map(({ containerPath }) => `mount ${containerPath}: selinux_relabel: ${why}`);
  const { addCapabilities = [], dropCapabilities = [], addAmbientCapabilities = [] } = security?.capabilities ?? {};
  const { refused } = decideCapabilities(
    {
      privileged: security?.privileged === true,
      add: addCapabilities,
      drop: dropCapabilities,
      addAmbient: addAmbientCapabilities,
    },
    host.boundingCapabilities,
  );
  for (const name of refused) words.push(`${name}: gantryd itself may not have it`);
  return words;
}
