import { readFile } from 'node:fs/promises';
import { errnoOf } from '../lib/errors.ts';

/** Ids of users or groups, `count` from `first` on. */
export interface IdRange {
  readonly first: number;
  readonly count: number;
}

/** Whose ids are whose on this machine, as far as its own files say. */
export interface HostIds {
  /** Subordinate ids that the host's administrator has given to the name that was asked for; empty: none. */
  readonly granted: { readonly uids: readonly IdRange[]; readonly gids: readonly IdRange[] };
  /** Those of users, of groups, and the subordinate ids of everybody else. */
  readonly taken: readonly IdRange[];
}

const FILES = { subuid: '/etc/subuid', subgid: '/etc/subgid', passwd: '/etc/passwd', group: '/etc/group' } as const;

/** Reads subuid(5), subgid(5), passwd(5) and group(5). A file that is not there says nothing; users of a directory service are not seen. */
export async function readHostIds(name: string): Promise<HostIds> {
  const [subuid, subgid, passwd, group] = await Promise.all(
    [FILES.subuid, FILES.subgid, FILES.passwd, FILES.group].map(textOf),
  );
  return hostIds(name, { subuid, subgid, passwd, group });
}

/** Pure. A line that is none says nothing. */
export function hostIds(name: string, texts: Partial<Record<keyof typeof FILES, string>>): HostIds {
  const uids = subordinates(texts.subuid ?? '');
  const gids = subordinates(texts.subgid ?? '');
  const ownOf = (all: readonly OwnedRange[]): IdRange[] => all.filter(({ owner }) => owner === name).map(rangeOf);
  const others = [...uids, ...gids].filter(({ owner }) => owner !== name).map(rangeOf);
  return {
    granted: { uids: ownOf(uids), gids: ownOf(gids) },
    taken: [...others, ...accounts(texts.passwd ?? ''), ...accounts(texts.group ?? '')],
  };
}

interface OwnedRange extends IdRange {
  readonly owner: string;
}

/** `owner:first:count` */
function subordinates(text: string): OwnedRange[] {
  return text.split('\n').flatMap((line) => {
    const [owner = '', first = '', count = ''] = line.trim().split(':');
    return owner === '' || !isId(first) || !isId(count) ? [] : { owner, first: Number(first), count: Number(count) };
  });
}

/** `name:password:id:…` */
function accounts(text: string): IdRange[] {
  return text.split('\n').flatMap((line) => {
    const [, , id = ''] = line.trim().split(':');
    return isId(id) ? { first: Number(id), count: 1 } : [];
  });
}

function rangeOf({ first, count }: IdRange): IdRange {
  return { first, count };
}

function isId(text: string): boolean {
  return /^\d{1,10}$/.test(text);
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return '';
    throw error;
  }
}
