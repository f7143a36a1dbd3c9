import { pack } from 'tar-stream';

/** A member of a tar made for a test. `name` goes into the archive as it is, however hostile. */
export interface TarMember {
  readonly name: string;
  readonly content?: string | Buffer;
  readonly type?: 'file' | 'directory' | 'symlink' | 'link' | 'character-device' | 'block-device' | 'fifo';
  readonly linkname?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly devmajor?: number;
  readonly devminor?: number;
}

/** The archive, with the same bytes for the same members on every machine. */
export async function tarOf(members: readonly TarMember[]): Promise<Buffer> {
  const archive = pack();
  for (const { content, ...header } of members) archive.entry({ mtime: new Date(0), ...header }, content ?? '');
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
