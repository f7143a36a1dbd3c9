import { openSync, read, writeSync } from 'node:fs';
import { libc } from '../../src/linux/libc.ts';

/**
 * A file system in user space with one file, whose opening is never answered. Whoever opens it waits in the kernel, in state D, and
 * SIGKILL does not end it (the request has been taken, so the kernel waits for the answer) until this process ends. The same for whoever
 * looks at a name that begins with `lost`, and for whoever makes something. There are as many folders (`folder-0` …) as one likes.
 *
 * usage: silent-fuse-server.ts MOUNT-POINT; writes a line when it is mounted, and one for each such request that it has taken
 */
const FUSE = {
  lookup: 1,
  getattr: 3,
  mkdir: 9,
  open: 14,
  statfs: 17,
  init: 26,
  opendir: 27,
  create: 35,
  forget: 2,
  interrupt: 36,
  batchForget: 42,
};
const IN_HEADER = 40;
const OUT_HEADER = 16;
const ENOENT = -2;
const ENOSYS = -38;
const FILE = 2n;
const FIRST_FOLDER = 16n;
const FOR_EVER_S = 3600n;
/** More than a header and the largest write that INIT agrees on. */
const BUFFER_BYTES = 128 * 1024;

const [target = ''] = process.argv.slice(2);
const fd = openSync('/dev/fuse', 'r+');
const options = `fd=${fd},rootmode=40000,user_id=0,group_id=0,allow_other`;
if (Number(libc.mount('silent-share', target, 'fuse', 0, options)) !== 0) {
  throw new Error(`mount on ${target}: errno ${libc.errno()}`);
}
process.stdout.write('mounted\n');

function attributes(node: bigint): Buffer {
  const attr = Buffer.alloc(88);
  attr.writeBigUInt64LE(node, 0);
  attr.writeUInt32LE(node === FILE ? 0o100644 : 0o040755, 60);
  attr.writeUInt32LE(1, 64);
  attr.writeUInt32LE(4096, 80);
  return attr;
}

function nodeOf(name: string): bigint | undefined {
  if (name === 'silent') return FILE;
  const [, which] = /^folder-(\d+)$/.exec(name) ?? [];
  return which === undefined ? undefined : FIRST_FOLDER + BigInt(which);
}

function answerOf(opcode: number, node: bigint, request: Buffer): Buffer | number | 'silence' {
  switch (opcode) {
    case FUSE.init: {
      const out = Buffer.alloc(64);
      out.writeUInt32LE(7, 0);
      out.writeUInt32LE(31, 4);
      out.writeUInt32LE(4096, 20);
      return out;
    }
    case FUSE.lookup: {
      const name = request.toString('utf8', IN_HEADER, request.length - 1);
      if (name.startsWith('lost')) {
        process.stdout.write('taken\n');
        return 'silence';
      }
      const found = nodeOf(name);
      if (found === undefined) return ENOENT;
      const out = Buffer.alloc(40);
      out.writeBigUInt64LE(found, 0);
      out.writeBigUInt64LE(FOR_EVER_S, 16);
      out.writeBigUInt64LE(FOR_EVER_S, 24);
      return Buffer.concat([out, attributes(found)]);
    }
    case FUSE.getattr: {
      const out = Buffer.alloc(16);
      out.writeBigUInt64LE(FOR_EVER_S, 0);
      return Buffer.concat([out, attributes(node)]);
    }
    case FUSE.opendir:
      return Buffer.alloc(16);
    case FUSE.statfs:
      return Buffer.alloc(80);
    case FUSE.open:
    case FUSE.mkdir:
    case FUSE.create:
      process.stdout.write('taken\n');
      return 'silence';
    case FUSE.forget:
    case FUSE.batchForget:
    case FUSE.interrupt:
      return 'silence';
    default:
      return ENOSYS;
  }
}

function serve(request: Buffer): void {
  const answer = answerOf(request.readUInt32LE(4), request.readBigUInt64LE(16), request);
  if (answer === 'silence') return;
  const body = typeof answer === 'number' ? Buffer.alloc(0) : answer;
  const header = Buffer.alloc(OUT_HEADER);
  header.writeUInt32LE(OUT_HEADER + body.length, 0);
  header.writeInt32LE(typeof answer === 'number' ? answer : 0, 4);
  request.copy(header, 8, 8, 16);
  writeSync(fd, Buffer.concat([header, body]));
}

const buffer = Buffer.alloc(BUFFER_BYTES);
function next(): void {
  read(fd, buffer, 0, buffer.length, null, (error, size) => {
    // ENODEV: unmounted.
    if (error?.code === 'ENODEV') return;
    // ENOENT: the request was taken back before it was read.
    if (error !== null && error.code !== 'ENOENT' && error.code !== 'EINTR') throw error;
    if (error === null) serve(Buffer.from(buffer.subarray(0, size)));
    next();
  });
}
next();
