import { invalidArgument } from '../../lib/errors.ts';
import type { ResolvedUser } from './container-spec-input.ts';
import { readInRoot } from './read-in-root.ts';

/** The texts of an image's /etc/passwd and /etc/group; empty where it has none. */
export interface UserFiles {
  readonly passwd: string;
  readonly group: string;
}

export interface UserRequest {
  /** CRI `run_as_user`. */
  readonly uid?: number;
  /** CRI `run_as_username`: looked up in the image; `user:group` as the image's own choice can be. Not together with `uid`. */
  readonly username?: string;
  /** CRI `run_as_group`: only together with a user. */
  readonly gid?: number;
  /** CRI `supplemental_groups`. */
  readonly supplementalGroups?: readonly number[];
  /** CRI `supplemental_groups_policy`: whether the image's group file adds to them (default `merge`). */
  readonly groupsPolicy?: 'merge' | 'strict';
  /** The image's own choice, used when no user is asked for: `user`, `uid`, `user:group`, `uid:gid`. */
  readonly imageUser?: string;
}

/** The kernel has some above, the OCI runtimes refuse them. */
export const LARGEST_ID = 2 ** 31 - 1;
const LARGEST_FILE_BYTES = 4 << 20;

export async function readUserFiles(rootfs: string): Promise<UserFiles> {
  return {
    passwd: (await readInRoot(rootfs, '/etc/passwd', LARGEST_FILE_BYTES)) ?? '',
    group: (await readInRoot(rootfs, '/etc/group', LARGEST_FILE_BYTES)) ?? '',
  };
}

/**
 * Who the container's process is. The first gid is among the additional ones, so that a group that a file denies access
 * cannot be dropped by setgroups. Throws InvalidArgument for a name that the image does not know.
 */
export function resolveUser(files: UserFiles, request: UserRequest): ResolvedUser {
  const asked = request.uid !== undefined || (request.username ?? '') !== '';
  if (request.gid !== undefined && !asked) throw invalidArgument('a group to run as needs a user to run as');
  const text = asked ? (request.uid?.toString() ?? request.username) : request.imageUser;
  const [who = '', group] = (text ?? '').split(':', 2);
  const users = parsePasswd(files.passwd);
  const groups = parseGroup(files.group);
  const user = findUser(users, who);
  const gid = request.gid ?? findGroup(groups, group) ?? user.gid;
  const ofFile =
    request.groupsPolicy === 'strict' || user.name === undefined
      ? []
      : groups.filter((group) => group.members.includes(user.name ?? '')).map((group) => group.gid);
  const additionalGids = [...new Set([gid, ...ofFile, ...(request.supplementalGroups ?? [])])];
  for (const id of [user.uid, ...additionalGids]) {
    if (!Number.isInteger(id) || id < 0 || id > LARGEST_ID) throw invalidArgument(`${id}: not a user or group id`);
  }
  return { uid: user.uid, gid, additionalGids, ...(user.home === undefined ? {} : { home: user.home }) };
}

interface User {
  readonly name?: string;
  readonly uid: number;
  readonly gid: number;
  readonly home?: string;
}

interface Group {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}

/** A number need not be in the image's file; a name must. */
function findUser(users: readonly User[], who: string): User {
  const name = who === '' ? '0' : who;
  const id = idOf(name);
  const found = users.find((user) => user.name === name) ?? users.find((user) => user.uid === id);
  if (found !== undefined) return found;
  if (id === undefined) throw invalidArgument(`user ${JSON.stringify(name)}: not in the image's /etc/passwd`);
  return { uid: id, gid: 0, home: id === 0 ? '/root' : '/' };
}

function findGroup(groups: readonly Group[], name: string | undefined): number | undefined {
  if (name === undefined || name === '') return undefined;
  const gid = groups.find((group) => group.name === name)?.gid ?? idOf(name);
  if (gid === undefined) throw invalidArgument(`group ${JSON.stringify(name)}: not in the image's /etc/group`);
  return gid;
}

function parsePasswd(text: string): User[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', , uidText = '', gidText = '', , home = ''] = line.split(':');
    const uid = idOf(uidText);
    const gid = idOf(gidText);
    if (name === '' || uid === undefined || gid === undefined) return [];
    return [{ name, uid, gid, home: home.startsWith('/') ? home.trimEnd() : '/' }];
  });
}

function parseGroup(text: string): Group[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', , gidText = '', members = ''] = line.split(':');
    const gid = idOf(gidText);
    if (name === '' || gid === undefined) return [];
    return [{ name, gid, members: members.trim().split(',').filter(Boolean) }];
  });
}

function idOf(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
