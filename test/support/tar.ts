import { pack } from 'tar-stream';

/** A member of a tar made for a test. */
export interface TarMember {
  readonly name: string;
  readonly content?: string | Buffer;
  readonly type?: 'file' | 'directory' | 'symlink';
  readonly linkname?: string;
  readonly mode?: number;
}

/** The archive, with the same bytes for the same members on every machine. Plain files may be given by name. */
export async function tarOf(
  members: readonly TarMember[] | Readonly<Record<string, string | Buffer>>,
): Promise<Buffer> {
  const archive = pack();
  const list = isList(members) ? members : Object.entries(members).map(([name, content]) => ({ name, content }));
  for (const { content, ...header } of list) archive.entry({ mtime: new Date(0), ...header }, content ?? '');
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function isList<T>(members: readonly T[] | object): members is readonly T[] {
  return Array.isArray(members);
}
