/** One line of a CRI log file: `TIME STREAM TAGS CONTENT`. */
export interface CriLogLine {
  /** RFC 3339 with nanoseconds, as written. */
  readonly time: string;
  readonly stream: 'stdout' | 'stderr';
  /** A piece of a longer line: no line end belongs after it. */
  readonly partial: boolean;
  readonly content: Buffer;
}

const SPACE = 0x20;

/** Undefined for what is no such line (a torn one after a crash, a file of somebody else's). */
export function parseCriLogLine(line: Buffer): CriLogLine | undefined {
  const first = line.indexOf(SPACE);
  const second = first < 0 ? -1 : line.indexOf(SPACE, first + 1);
  if (second < 0) return undefined;
  const third = line.indexOf(SPACE, second + 1);
  const end = third < 0 ? line.length : third;
  const stream = line.toString('latin1', first + 1, second);
  if (stream !== 'stdout' && stream !== 'stderr') return undefined;
  const tags = line.toString('latin1', second + 1, end).split(':');
  if (tags[0] !== 'P' && tags[0] !== 'F') return undefined;
  return {
    time: line.toString('latin1', 0, first),
    stream,
    partial: tags[0] === 'P',
    content: line.subarray(Math.min(end + 1, line.length)),
  };
}
