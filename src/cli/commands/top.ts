import { invalidArgument, unavailable } from '../../lib/errors.ts';
import type { Pod } from '../../kube/objects.ts';
import type { PodMetrics } from '../../kube/pod-metrics.ts';
import { quantityToMilli, quantityToNumber } from '../../kube/quantity.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { layOut } from '../output/table.ts';

export interface TopOptions {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly selector?: string;
  /** A row for each container. */
  readonly containers: boolean;
  readonly noHeaders: boolean;
  /** `cpu` or `memory`, the most first; absent: by name. */
  readonly sortBy?: string;
  /** A last row with the sums. */
  readonly sum: boolean;
}

interface Row {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly milliCores: number;
  readonly bytes: number;
}

const BYTES_PER_MIB = 1024 * 1024;

/** `gantry top pods`: what pods use now, as `kubectl top` shows it. */
export async function topPods(context: CliContext, name: string | undefined, options: TopOptions): Promise<ExitCode> {
  const { namespace, selector, sortBy } = options;
  if (sortBy !== undefined && sortBy !== 'cpu' && sortBy !== 'memory') {
    throw invalidArgument(`--sort-by ${sortBy}: it should be cpu or memory`);
  }
  if (name !== undefined && selector !== undefined)
    throw invalidArgument('a name and a selector cannot be used together');
  if (name !== undefined && namespace === undefined)
    throw invalidArgument('a resource cannot be retrieved by name across all namespaces');
  const { gantry } = await context.api();
  const found = await gantry.podMetrics(context.op, {
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(selector === undefined ? {} : { labelSelector: selector }),
  });
  if (found.length === 0) return await sayWhyNone(context, options);
  const rows = found.flatMap((pod) => rowsOf(pod, options.containers)).sort(inOrderOf(sortBy));
  for (const text of table(rows, options)) await line(context.out, text);
  return 0;
}

/** Pods that have not been looked at yet are not no pods. Throws Unavailable where there will be something to show, as kubectl fails. */
async function sayWhyNone(context: CliContext, { namespace, selector }: TopOptions): Promise<ExitCode> {
  const { kube } = await context.api();
  const { items } = await kube.list(context.op, 'pods', {
    ...(namespace === undefined ? {} : { namespace }),
    ...(selector === undefined ? {} : { labelSelector: selector }),
  });
  if (items.some((pod) => !hasEnded(pod))) {
    throw unavailable('metrics are not available yet: no pod has run long enough to be measured');
  }
  const what = items.length === 0 ? 'No resources found' : 'No pod runs';
  await line(context.err, `${what}${namespace === undefined ? '' : ` in ${namespace} namespace`}`);
  return 0;
}

function hasEnded({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function rowsOf({ metadata, containers }: PodMetrics, each: boolean): Row[] {
  const rows = containers.map(({ name, usage }) => ({
    namespace: metadata.namespace,
    pod: metadata.name,
    container: name,
    milliCores: quantityToMilli(usage.cpu),
    bytes: quantityToNumber(usage.memory),
  }));
  return each ? rows : [summed(rows, { namespace: metadata.namespace, pod: metadata.name })];
}

function summed(rows: readonly Row[], { namespace, pod }: Pick<Row, 'namespace' | 'pod'>): Row {
  const milliCores = rows.reduce((total, row) => total + row.milliCores, 0);
  const bytes = rows.reduce((total, row) => total + row.bytes, 0);
  return { namespace, pod, container: '', milliCores, bytes };
}

function inOrderOf(sortBy: 'cpu' | 'memory' | undefined): (a: Row, b: Row) => number {
  const byName = (a: Row, b: Row): number => (nameOf(a) < nameOf(b) ? -1 : 1);
  if (sortBy === 'cpu') return (a, b) => b.milliCores - a.milliCores || byName(a, b);
  if (sortBy === 'memory') return (a, b) => b.bytes - a.bytes || byName(a, b);
  return byName;
}

function nameOf({ namespace, pod, container }: Row): string {
  return [namespace, pod, container].join('\0');
}

function table(rows: readonly Row[], { namespace, containers, noHeaders, sum }: TopOptions): string[] {
  const leading = (row: Row): string[] => [
    ...(namespace === undefined ? [row.namespace] : []),
    ...(containers ? [row.pod, row.container] : [row.pod]),
  ];
  const header = [
    ...(namespace === undefined ? ['NAMESPACE'] : []),
    ...(containers ? ['POD', 'NAME'] : ['NAME']),
    'CPU(cores)',
    'MEMORY(bytes)',
  ];
  const amounts = ({ milliCores, bytes }: Row): string[] => [
    `${String(milliCores)}m`,
    `${String(Math.floor(bytes / BYTES_PER_MIB))}Mi`,
  ];
  const cells = rows.map((row) => [...leading(row), ...amounts(row)]);
  const total = summed(rows, { namespace: '', pod: '' });
  if (sum) cells.push([...leading(total), ...amounts(total)]);
  const laidOut = layOut(header, cells);
  return noHeaders ? laidOut.slice(1) : laidOut;
}
