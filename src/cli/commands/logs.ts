import { defaultContainer } from '../choose-container.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { errorText } from '../error-text.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { LogOptions } from '../../kube/gantry-extensions.ts';
import type { Pod } from '../../kube/objects.ts';
import { invalidArgument } from '../../lib/errors.ts';

export interface LogsRequest {
  /** For each of the logs. */
  readonly options: Omit<LogOptions, 'name'>;
  /** Of this pod; absent: of those that the selector chooses. */
  readonly name?: string;
  readonly selector?: string;
  readonly allContainers: boolean;
  /** Each line with the pod and the container that it is of. */
  readonly prefix: boolean;
  /** How many may be followed at once. */
  readonly maxRequests: number;
}

/** `gantry logs`: what a container wrote, or several. */
export async function logs(context: CliContext, request: LogsRequest): Promise<ExitCode> {
  const { allContainers, prefix, maxRequests, options } = request;
  const { container, follow = false } = options;
  const { gantry, kube } = await context.api();
  if (allContainers && container !== undefined)
    throw invalidArgument(`-c ${container} and --all-containers cannot be used together`);
  const sources = await findSources(context, kube, request);
  if (sources.length === 0) {
    await line(context.err, `No resources found in ${options.namespace} namespace`);
    return 0;
  }
  if (follow && sources.length > maxRequests) {
    throw invalidArgument(
      `that would follow ${sources.length} logs at once, and ${maxRequests} is the limit: raise it with --max-log-requests`,
    );
  }
  const show = async (source: Source, asLines: boolean): Promise<void> => {
    const chunks = gantry.logs(context.op, { ...options, ...source });
    const from = prefix ? `[pod/${source.name}/${source.container}] ` : '';
    for await (const chunk of asLines ? wholeLines(chunks, from) : chunks) await context.out.write(chunk);
  };
  const [only] = sources;
  if (sources.length === 1 && only !== undefined) {
    await show(only, prefix);
    return 0;
  }
  let code: ExitCode = 0;
  const tryShow = async (source: Source): Promise<void> => {
    try {
      await show(source, true);
    } catch (error) {
      if (context.op.signal.aborted) throw error;
      await line(context.err, errorText(error));
      code = 1;
    }
  };
  if (follow) await Promise.all(sources.map(tryShow));
  else for (const source of sources) await tryShow(source);
  return code;
}

interface Source {
  readonly name: string;
  readonly container: string;
}

/** The containers that are meant, pod by pod. */
async function findSources(context: CliContext, kube: KubeClient, request: LogsRequest): Promise<Source[]> {
  const { allContainers, options } = request;
  const { container } = options;
  const pods = await findPods(context, kube, request);
  const sources: Source[] = [];
  for (const pod of pods) {
    const all = pod.spec.containers.map((each) => each.name);
    const chosen = allContainers ? all : [container ?? (await usualContainer(context, pod))];
    for (const each of chosen) if (each !== undefined) sources.push({ name: pod.metadata.name, container: each });
  }
  return sources;
}

async function usualContainer(context: CliContext, pod: Pod): Promise<string | undefined> {
  const chosen = defaultContainer(pod);
  if (chosen?.notice !== undefined) await line(context.err, chosen.notice);
  return chosen?.name;
}

async function findPods(
  context: CliContext,
  kube: KubeClient,
  { name, selector, options: { namespace } }: LogsRequest,
): Promise<Pod[]> {
  if (name !== undefined) {
    if (selector !== undefined) throw invalidArgument("a pod's name and a selector cannot be used together");
    return [await kube.get(context.op, 'pods', { namespace, name })];
  }
  if (selector === undefined) throw invalidArgument('name a pod, or choose pods with -l SELECTOR');
  const { items } = await kube.list(context.op, 'pods', { namespace, labelSelector: selector });
  return items.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

const NEWLINE = 10;

/** Chunks of whole lines, each line with `prefix`, so that what several write does not run together; the last is ended if need be. */
async function* wholeLines(chunks: AsyncIterable<Uint8Array>, prefix: string): AsyncGenerator<Buffer> {
  const start = Buffer.from(prefix);
  let rest: Buffer[] = [];
  for await (const chunk of chunks) {
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      lines.push(start, ...rest, Buffer.from(chunk.subarray(from, end + 1)));
      rest = [];
      from = end + 1;
    }
    if (from < chunk.length) rest.push(Buffer.from(chunk.subarray(from)));
    if (lines.length > 0) yield Buffer.concat(lines);
  }
  if (rest.length > 0) yield Buffer.concat([start, ...rest, Buffer.from('\n')]);
}
