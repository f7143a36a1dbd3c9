import type { Explanation } from '../../kube/gantry-extensions.ts';
import { invalidArgument, notFound } from '../../lib/errors.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { askGantry } from '../diagnosis-source.ts';
import { explanationLines } from '../output/explanation.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { resourceNamed } from '../resources.ts';

export interface ExplainOptions {
  readonly namespace: string;
  readonly uid?: string;
  readonly runtimeEndpoint?: string;
  readonly format: OutputFormat;
}

/**
 * `gantry explain pod NAME`, `gantry explain container ID|NAME|POD/NAME`: its life so far, in order, with the time each step took
 * and why it happened; how it ended; what is still pending.
 */
export async function explain(
  context: CliContext,
  args: readonly string[],
  options: ExplainOptions,
): Promise<ExitCode> {
  const { what, name } = subjectOf(args);
  const { namespace, uid } = options;
  const explanation = await askGantry(context, options.runtimeEndpoint, (gantry) =>
    what === 'container'
      ? gantry.explainContainer(context.op, { namespace, container: name })
      : gantry.explain(context.op, { namespace, name, ...(uid === undefined ? {} : { uid }) }),
  );
  if (options.format === 'json' || options.format === 'yaml') {
    await context.out.write(await structured(options.format, explanation));
    return 0;
  }
  if (isEmpty(explanation))
    throw notFound(`the journal has nothing of a ${what} "${name}" in namespace "${namespace}"`);
  for (const text of explanationLines(`${what} ${name}`, explanation, context.clock.wallMs()))
    await line(context.out, text);
  return 0;
}

function subjectOf(args: readonly string[]): { what: 'pod' | 'container'; name: string } {
  const usage = 'usage: gantry explain pod NAME, or gantry explain container ID|NAME|POD/NAME';
  const [first = '', second] = args;
  const cut = first.indexOf('/');
  const [kind, name] = args.length === 1 ? [first.slice(0, cut), first.slice(cut + 1)] : [first, second];
  if (kind === '' || cut === 0 || name === undefined || name === '' || args.length > 2) throw invalidArgument(usage);
  if (kind === 'container' || kind === 'containers') return { what: 'container', name };
  if (resourceNamed(kind).resource !== 'pods') {
    throw invalidArgument(`only pods and containers have a life to explain, not ${kind}`);
  }
  return { what: 'pod', name };
}

function isEmpty({ entries, pending, objects }: Explanation): boolean {
  return entries.length === 0 && pending.length === 0 && objects.length === 0;
}
