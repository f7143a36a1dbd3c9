export interface LogLines {
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
}

/** The lines of a log in CRI's format, with what was cut put together; a last line without its end counts as well. */
export function linesOf(log: string): LogLines {
  const lines: Record<string, string[]> = { stdout: [], stderr: [] };
  const parts = new Map<string, string>();
  for (const row of log.split('\n')) {
    const [, stream, tag, text = ''] = /^\S+ (stdout|stderr) ([PF])(?: (.*))?$/.exec(row) ?? [];
    if (stream === undefined) continue;
    const line = `${parts.get(stream) ?? ''}${text}`;
    parts.set(stream, line);
    if (tag === 'P') continue;
    lines[stream]?.push(line);
    parts.delete(stream);
  }
  for (const [stream, text] of parts) lines[stream]?.push(text);
  return { stdout: lines['stdout'] ?? [], stderr: lines['stderr'] ?? [] };
}

/** How many lines are missing, or are others than they should be. */
export function linesLost(expected: readonly string[], found: readonly string[]): number {
  const longest = Math.max(expected.length, found.length);
  let lost = 0;
  for (let index = 0; index < longest; index++) if (expected[index] !== found[index]) lost++;
  return lost;
}
