import { GantryError, type ErrorKind } from '../../lib/errors.ts';

/** Words of crun and runc, lower case, and what they mean for a caller. The first match wins. */
const WORDS: readonly (readonly [RegExp, ErrorKind])[] = [
  // The container itself is unknown to the runtime (state, delete, kill, start).
  [/container .*does not exist/, 'NotFound'],
  [/error opening file `[^`]*status`: no such file/, 'NotFound'],
  [/cannot open directory '[^']*': no such file/, 'NotFound'],
  [/no such container/, 'NotFound'],
  [/container with (?:given|that) id already exists|container .* already exists/, 'AlreadyExists'],
  // The command of the container.
  [/executable file .*not found/, 'NotFound'],
  [/exec: .*: (?:stat .*: )?no such file or directory/, 'NotFound'],
  [/chdir to cwd .*no such file|cwd .*no such file/, 'NotFound'],
  [/exec: .*permission denied|open executable.*permission denied|is a directory/, 'PermissionDenied'],
  [/exec format error/, 'InvalidArgument'],
  [/process already finished|no such process|container not running|is not running/, 'NotFound'],
  [/no space left on device|disk quota exceeded|cannot allocate memory|too many open files/, 'ResourceExhausted'],
  [/unknown version specified|invalid spec|validation failed/, 'InvalidArgument'],
  [/permission denied|operation not permitted/, 'PermissionDenied'],
  [/device or resource busy/, 'Unavailable'],
];

/** Makes an error of what an OCI runtime wrote on stderr or in its log. */
export function classifyRuntimeError(runtime: string, command: string, output: string): GantryError {
  const words = runtimeWords(output);
  const lower = words.toLowerCase();
  const kind = WORDS.find(([pattern]) => pattern.test(lower))?.[1] ?? 'Internal';
  return new GantryError(kind, `${runtime} ${command}: ${words}`, { details: { runtime, command } });
}

/** The messages in a runtime's output: plain lines, JSON log lines or logrus text lines; the runtime's own prefixes dropped. */
export function runtimeWords(output: string): string {
  const seen = new Set<string>();
  for (const line of output.split('\n')) {
    const words = wordsOfLine(line.trim());
    if (words !== undefined && words !== '') seen.add(words);
  }
  return [...seen].join('; ');
}

function wordsOfLine(line: string): string | undefined {
  if (line.startsWith('{')) {
    try {
      const entry = JSON.parse(line) as { level?: unknown; msg?: unknown };
      if (entry.level === 'debug' || entry.level === 'info' || entry.level === 'warning') return undefined;
      if (typeof entry.msg === 'string') return entry.msg.trim();
    } catch {
      // Cut off by a full disk or a kill: shown as it is.
    }
    return line;
  }
  if (/^time="[^"]*" level=(?:debug|info|warning) /.test(line)) return undefined;
  const text = /^time="[^"]*" level=\w+ msg=(".*")$/.exec(line)?.[1];
  if (text !== undefined) {
    try {
      return JSON.parse(text) as string;
    } catch {
      return text;
    }
  }
  return line;
}
