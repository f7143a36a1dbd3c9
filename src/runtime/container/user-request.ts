import { SupplementalGroupsPolicy } from '../../cri/gen/api.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { LARGEST_ID, type UserRequest } from '../oci/user.ts';
import type { ContainerMeta } from '../store/container-record.ts';

/** Who the process is to be, as CRI has it. */
export function userRequestOf({ config, facts }: ContainerMeta): UserRequest {
  const security = config.linux?.securityContext;
  const number = (value: { value: bigint } | undefined): number | undefined =>
    value === undefined ? undefined : Number(value.value);
  const runAsUser = number(security?.runAsUser);
  const runAsGroup = number(security?.runAsGroup);
  const runAsUsername = security?.runAsUsername ?? '';
  return {
    ...(facts.image.user === undefined ? {} : { imageUser: facts.image.user }),
    ...(runAsUser === undefined ? {} : { uid: runAsUser }),
    ...(runAsUsername === '' ? {} : { username: runAsUsername }),
    ...(runAsGroup === undefined ? {} : { gid: runAsGroup }),
    supplementalGroups: (security?.supplementalGroups ?? []).map(Number),
    groupsPolicy: security?.supplementalGroupsPolicy === SupplementalGroupsPolicy.Strict ? 'strict' : 'merge',
  };
}

/** What can be said before there is an image to look a name up in. Throws InvalidArgument. */
export function checkUser(request: UserRequest): void {
  if (request.uid !== undefined && request.username !== undefined) {
    throw invalidArgument('run_as_user and run_as_username are both set, and only one of them can be');
  }
  // CRI: "run_as_group should only be specified when run_as_user or run_as_username is specified".
  if (request.gid !== undefined && request.uid === undefined && request.username === undefined) {
    throw invalidArgument('run_as_group is set, but neither run_as_user nor run_as_username is');
  }
  const names = request.uid === undefined ? (request.username ?? '').split(':') : [];
  if (names.length > 2 || (names.length === 2 && (request.gid !== undefined || names.includes('')))) {
    throw invalidArgument(
      `run_as_username ${JSON.stringify(request.username)}: neither USER nor USER:GROUP without run_as_group`,
    );
  }
  const numbers = names
    .filter((name) => /^\d+$/.test(name))
    .map((name): [string, number] => ['run_as_username', Number(name)]);
  const groups = (request.supplementalGroups ?? []).map((id, i): [string, number] => [
    `supplemental_groups[${String(i)}]`,
    id,
  ]);
  const ids: [string, number | undefined][] = [
    ['run_as_user', request.uid],
    ['run_as_group', request.gid],
  ];
  for (const [field, id] of [...ids, ...groups, ...numbers]) {
    if (id !== undefined && (id < 0 || id > LARGEST_ID)) {
      throw invalidArgument(`${field}: ${String(id)} is no user or group id`);
    }
  }
}
