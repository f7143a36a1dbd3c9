import { open, stat, type FileHandle } from 'node:fs/promises';
import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import { errnoOf, notFound } from '../../lib/errors.ts';
import { parseCriLogLine, type CriLogLine } from './cri-log-line.ts';

export interface ReadLogsOptions {
  /** Lines from the end; absent: all. */
  readonly tailLines?: number;
  /** Only what was written at or after this wall time. */
  readonly sinceWallMs?: number;
  readonly timestamps?: boolean;
  readonly limitBytes?: number;
  /** Goes on until the container has ended. */
  readonly follow?: FollowOptions;
}

export interface FollowOptions {
  readonly clock: Clock;
  /** Whether more may be written. Asked after the end of the file was reached. */
  readonly goesOn: () => Promise<boolean>;
}

const CHUNK_BYTES = 64 * 1024;
const POLL_MS = 200;
const NEWLINE = 0x0a;

/** A container's output as it wrote it, from a CRI log file. Throws NotFound when there is none. */
export async function* readLogs(op: Op, path: string, options: ReadLogsOptions): AsyncGenerator<Uint8Array> {
  await using file = await openLog(path);
  let rest = options.limitBytes ?? Number.POSITIVE_INFINITY;
  let lineBegins = true;
  const start = options.tailLines === undefined ? 0 : await tailOffset(file, options.tailLines);
  for await (const line of lines(op, file, path, start, options.follow)) {
    const entry = parseCriLogLine(line);
    if (entry === undefined || !isSince(entry, options.sinceWallMs)) continue;
    const chunk = render(entry, options.timestamps === true && lineBegins);
    lineBegins = !entry.partial;
    if (rest <= 0) return;
    yield chunk.subarray(0, Math.min(chunk.length, rest));
    rest -= chunk.length;
    if (rest <= 0) return;
  }
}

async function openLog(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw notFound('there is no log (yet)', { cause: error });
    throw error;
  }
}

function isSince(entry: CriLogLine, sinceWallMs: number | undefined): boolean {
  return sinceWallMs === undefined || !(Date.parse(entry.time) < sinceWallMs);
}

function render(entry: CriLogLine, withTime: boolean): Buffer {
  const parts = [entry.content];
  if (withTime) parts.unshift(Buffer.from(`${entry.time} `));
  if (!entry.partial) parts.push(Buffer.from('\n'));
  return Buffer.concat(parts);
}

/** Whole lines from `start`, without their line ends; with `follow`, also those that are written meanwhile. */
async function* lines(
  op: Op,
  first: FileHandle,
  path: string,
  start: number,
  follow: FollowOptions | undefined,
): AsyncGenerator<Buffer> {
  let file = first;
  let at = start;
  let carry: Buffer = Buffer.alloc(0);
  // The container may end between the last look at the file and the question: read once more after a "no".
  let last = follow === undefined;
  try {
    for (;;) {
      if (op.signal.aborted) return;
      const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES, at);
      if (bytesRead > 0) {
        at += bytesRead;
        const data = Buffer.concat([carry, buffer.subarray(0, bytesRead)]);
        let from = 0;
        for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE, from)) {
          yield data.subarray(from, end);
          from = end + 1;
        }
        carry = data.subarray(from);
        continue;
      }
      if (last || follow === undefined) break;
      const rotated = await reopened(file, path, at);
      if (rotated !== undefined) {
        if (file !== first) await file.close();
        file = rotated;
        at = 0;
        continue;
      }
      last = !(await follow.goesOn());
      if (!last) await follow.clock.sleep(POLL_MS, op.signal).catch(() => undefined);
    }
    // A last line that was cut off (monitor killed): what there is of it.
    if (carry.length > 0) yield carry;
  } finally {
    if (file !== first) await file.close();
  }
}

/** The log was rotated (another file has the name) or cut short. */
async function reopened(file: FileHandle, path: string, at: number): Promise<FileHandle | undefined> {
  try {
    const [mine, there] = await Promise.all([file.stat(), stat(path)]);
    if (mine.ino === there.ino && mine.dev === there.dev && there.size >= at) return undefined;
    return await open(path, 'r');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Where the last `count` lines begin: read backwards, so that a big file costs no more than its tail. A line's pieces count as one. */
async function tailOffset(file: FileHandle, count: number): Promise<number> {
  const { size } = await file.stat();
  if (count <= 0) return size;
  let found = 0;
  let end = size;
  let tail: Buffer = Buffer.alloc(0);
  while (end > 0) {
    const length = Math.min(CHUNK_BYTES, end);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, end - length);
    const block = Buffer.concat([buffer, tail]);
    const blockStart = end - length;
    let lineEnd = block.length;
    for (let at = block.length - 1; at >= 0; at--) {
      if (block[at] !== NEWLINE) continue;
      // The line that begins here counts when it is the end of a written line (a full one).
      const line = block.subarray(at + 1, lineEnd);
      if (line.length > 0 && endsLine(line)) {
        found += 1;
        // The pieces before it belong to it: the one whose predecessor is full begins it.
        if (found > count) return afterFull(blockStart, at, line.length);
      }
      lineEnd = at;
    }
    tail = Buffer.from(block.subarray(0, lineEnd));
    end = blockStart;
  }
  // The first line has no line end before it.
  return found === count && endsLine(tail) ? tail.length + 1 : 0;
}

/** Just behind a full line: where the one after it begins. */
function afterFull(blockStart: number, newlineAt: number, lineLength: number): number {
  return blockStart + newlineAt + 1 + lineLength + 1;
}

function endsLine(line: Buffer): boolean {
  return parseCriLogLine(line)?.partial === false;
}
