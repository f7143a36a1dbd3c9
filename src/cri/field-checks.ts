import { invalidArgument } from '../lib/errors.ts';
import {
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
  type LinuxContainerSecurityContext,
  type LinuxSandboxSecurityContext,
} from './gen/api.ts';

/**
 * Throws InvalidArgument, with field and value, for a number that the enum does not have: on the wire an enum is any number, whatever the type
 * says. A field that is not there is fine.
 */
export function demandValueOf(
  values: Readonly<Record<string, number>>,
  value: number | undefined,
  field: string,
): void {
  if (value === undefined || Object.values(values).includes(value)) return;
  throw invalidArgument(`${field}: ${String(value)} is none of ${Object.keys(values).join(', ')}`);
}

type ChosenByNumber = Pick<
  LinuxContainerSecurityContext | LinuxSandboxSecurityContext,
  'seccomp' | 'apparmor' | 'supplementalGroupsPolicy'
>;

/** {@link demandValueOf} for the enums that a sandbox and a container have both; of the namespaces each has values of its own. */
export function checkSecurityValues(security: ChosenByNumber | undefined): void {
  const field = (name: string): string => `linux.security_context.${name}`;
  demandValueOf(SecurityProfile_ProfileType, security?.seccomp?.profileType, field('seccomp.profile_type'));
  demandValueOf(SecurityProfile_ProfileType, security?.apparmor?.profileType, field('apparmor.profile_type'));
  demandValueOf(SupplementalGroupsPolicy, security?.supplementalGroupsPolicy, field('supplemental_groups_policy'));
}

/**
 * Throws InvalidArgument, naming the field, for a text with a NUL anywhere in a part of a request: no path, name or variable of Linux can
 * have one, and what follows it would be lost.
 */
export function demandNoNul(value: unknown, field: string): void {
  if (typeof value === 'string' || value instanceof Uint8Array) {
    if (typeof value === 'string' ? value.includes('\0') : value.includes(0)) throw withNul(field);
  } else if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) demandNoNul(item, `${field}[${String(i)}]`);
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      if (key.includes('\0')) throw withNul(field);
      demandNoNul(item, `${field}.${key.replaceAll(/(?<=[a-z])[A-Z]/g, '_$&').toLowerCase()}`);
    }
  }
}

/** Throws InvalidArgument for what no exec can run: nothing at all, or a word with a NUL in it. */
export function demandCommand(cmd: readonly string[]): void {
  if (cmd.length === 0) throw invalidArgument('cmd: there is no command');
  demandNoNul(cmd, 'cmd');
}

function withNul(field: string): Error {
  return invalidArgument(`${field}: there is a NUL in it`);
}
