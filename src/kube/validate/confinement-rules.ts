import type { AppArmorProfile, SeccompProfile } from '../objects.ts';
import { invalid, required, tooLong, type FieldPath, type Issue } from './issue.ts';
import { descendingPath } from './names.ts';

interface Profiles {
  readonly seccompProfile?: SeccompProfile | undefined;
  readonly appArmorProfile?: AppArmorProfile | undefined;
}

/** What the kernel takes as the name of a profile. */
const MAX_APPARMOR_NAME = 4_095;

/** Of the `securityContext` of a pod or of a container: a name goes with the type Localhost, and only with it. */
export function confinementRules({ seccompProfile, appArmorProfile }: Profiles = {}, at: FieldPath): Issue[] {
  return [
    ...profileRules('seccomp', seccompProfile, [...at, 'seccompProfile'], (path, name) => {
      const why = descendingPath(name);
      return why === undefined ? [] : [invalid(path, name, why)];
    }),
    ...profileRules('AppArmor', appArmorProfile, [...at, 'appArmorProfile'], (path, name) => {
      if (name !== name.trim()) return [invalid(path, name, 'must not be padded with whitespace')];
      return name.length > MAX_APPARMOR_NAME ? [tooLong(path, MAX_APPARMOR_NAME)] : [];
    }),
  ];
}

function profileRules(
  what: string,
  profile: SeccompProfile | AppArmorProfile | undefined,
  at: FieldPath,
  check: (path: FieldPath, name: string) => Issue[],
): Issue[] {
  if (profile === undefined) return [];
  const path = [...at, 'localhostProfile'];
  const name = profile.localhostProfile;
  if (profile.type !== 'Localhost') {
    return name === undefined ? [] : [invalid(path, name, `can only be set when ${what} type is Localhost`)];
  }
  if (name === undefined || name.trim() === '') {
    return [required(path, `must be set when ${what} type is Localhost`)];
  }
  return check(path, name);
}
