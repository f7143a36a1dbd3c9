import { SecurityProfile_ProfileType, type LinuxContainerSecurityContext } from '../../cri/gen/api.ts';
import { failedPrecondition, invalidArgument, notImplemented } from '../../lib/errors.ts';
import { decideCapabilities } from '../oci/capabilities.ts';
import type { HostFacts } from '../oci/container-spec-input.ts';

type Security = LinuxContainerSecurityContext | undefined;

const LOCALHOST = 'localhost/';

/**
 * The AppArmor profile to be confined by; undefined: none. We bring no profile of our own, so RuntimeDefault is none, too. Throws
 * FailedPrecondition for a profile of the host's where there is no AppArmor: to run without would be less than was asked for.
 */
export function appArmorProfileOf(security: Security, host: Pick<HostFacts, 'appArmor'>): string | undefined {
  if (security?.privileged === true) return undefined;
  const asked = askedProfile(security);
  if (asked === undefined) return undefined;
  const name = asked.startsWith(LOCALHOST) ? asked.slice(LOCALHOST.length) : asked;
  if (name === '') throw invalidArgument('an AppArmor profile of type Localhost needs a name');
  if (!host.appArmor)
    throw failedPrecondition(`AppArmor profile ${name}: this host has no AppArmor, or it is switched off`);
  return name;
}

/** The newer field counts; the text is from before there was one. */
function askedProfile(security: Security): string | undefined {
  if (security?.apparmor !== undefined) {
    const { profileType, localhostRef } = security.apparmor;
    return profileType === SecurityProfile_ProfileType.Localhost ? localhostRef : undefined;
  }
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- kubelets before 1.30 fill this one alone
  const text = security?.apparmorProfile ?? '';
  if (['', 'unconfined', 'runtime/default'].includes(text)) return undefined;
  if (!text.startsWith(LOCALHOST)) {
    throw invalidArgument(`AppArmor profile "${text}": neither unconfined, runtime/default nor localhost/…`);
  }
  return text;
}

/**
 * What is asked for and not given, in words. Throws NotImplemented for SELinux labels where SELinux is on; where it is off they mean
 * nothing, to any runtime.
 */
export function notGiven(security: Security, host: Pick<HostFacts, 'seLinux' | 'boundingCapabilities'>): string[] {
  const words: string[] = [];
  const { user = '', role = '', type = '', level = '' } = security?.selinuxOptions ?? {};
  const label = [user, role, type, level];
  if (label.some((part) => part !== '')) {
    if (host.seLinux) throw notImplemented(`SELinux label ${label.join(':')}: SELinux labels are not supported yet`);
    words.push(`SELinux label ${label.join(':')}: this host has no SELinux`);
  }
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
