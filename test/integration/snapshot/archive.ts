import { createHash } from 'node:crypto';
import { tarEnd, tarHeader, tarPadding } from '../../../src/runtime/snapshot/tar/tar-writer.ts';
import type { TarEntry } from '../../../src/runtime/snapshot/tar/tar-entry.ts';

export type Member = Partial<Omit<TarEntry, 'size'>> & {
  readonly path: string;
  readonly content?: string | Buffer;
  /** What the header says, if not the truth. */
  readonly claimedSize?: number;
};

const PLAIN = { linkPath: '', uid: 0, gid: 0, deviceMajor: 0, deviceMinor: 0, xattrs: [] };

export function file(path: string, content: string | Buffer = path, more: Partial<Member> = {}): Member {
  return { type: 'file', path, content, ...more };
}

export function dir(path: string, more: Partial<Member> = {}): Member {
  return { type: 'directory', path: `${path}/`, mode: 0o755, ...more };
}

export function symlink(path: string, linkPath: string): Member {
  return { type: 'symlink', path, linkPath, mode: 0o777 };
}

export function hardLink(path: string, linkPath: string): Member {
  return { type: 'link', path, linkPath };
}

/** An uncompressed layer of these members, honest or not. */
export function archive(...members: readonly Member[]): Buffer {
  const parts = members.map(({ content = '', claimedSize, ...given }) => {
    const body = Buffer.from(content);
    const type = given.type ?? 'file';
    const size = type === 'file' ? (claimedSize ?? body.length) : 0;
    const entry: TarEntry = {
      ...PLAIN,
      ...{ type, mode: 0o644, mtime: { seconds: 1_000_000_000, nanoseconds: 0 } },
      ...given,
      size,
    };
    return Buffer.concat([tarHeader(entry), body, tarPadding(body.length)]);
  });
  return Buffer.concat([...parts, tarEnd()]);
}

export function diffIdOf(tar: Buffer): string {
  return `sha256:${createHash('sha256').update(tar).digest('hex')}`;
}
