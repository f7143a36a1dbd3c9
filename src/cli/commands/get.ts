import { headerOf, rowOf, type TableOptions } from '../output/columns.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { columnWidths, formatRow, layOut } from '../output/table.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { parseResourceArgs, singularOf, type ResourceRequest } from '../resources.ts';
import { errorText } from '../error-text.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource, ResourceTypes } from '../../kube/objects.ts';

export interface GetOptions {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly format: OutputFormat;
  readonly watch: boolean;
  readonly selector?: string;
  readonly fieldSelector?: string;
  readonly noHeaders: boolean;
  readonly ignoreNotFound: boolean;
}

interface Found<R extends Resource> {
  readonly resource: R;
  readonly items: readonly ResourceTypes[R][];
  /** From which version a watch goes on. */
  readonly resourceVersion: string;
}

/** `gantry get`: lists objects, or shows some by name. */
export async function get(context: CliContext, args: readonly string[], options: GetOptions): Promise<ExitCode> {
  const requests = parseResourceArgs(args);
  if (options.watch && requests.length > 1) throw invalidArgument('you may only watch one kind of resource at a time');
  if (requests.some((r) => r.names.length > 0) && (options.selector ?? options.fieldSelector) !== undefined) {
    throw invalidArgument('names and a selector cannot be used together');
  }
  const { kube } = await context.api();
  let code: ExitCode = 0;
  const found: Found<Resource>[] = [];
  for (const request of requests) {
    const { result, failures } = await find(context, kube, request, options);
    found.push(result);
    for (const failure of failures) {
      if (options.ignoreNotFound && failure.notFound) continue;
      await line(context.err, failure.text);
      code = 1;
    }
  }
  await print(context, requests, found, options);
  if (options.watch && found[0] !== undefined && requests[0] !== undefined) {
    await watch(context, kube, requests[0], found[0], options);
  }
  return code;
}

async function find(
  context: CliContext,
  kube: KubeClient,
  request: ResourceRequest,
  options: GetOptions,
): Promise<{ result: Found<Resource>; failures: { text: string; notFound: boolean }[] }> {
  const { resource } = request;
  const namespace = request.namespaced ? options.namespace : undefined;
  const failures: { text: string; notFound: boolean }[] = [];
  if (request.names.length === 0) {
    const list = await kube.list(context.op, resource, {
      ...(namespace === undefined ? {} : { namespace }),
      ...(options.selector === undefined ? {} : { labelSelector: options.selector }),
      ...(options.fieldSelector === undefined ? {} : { fieldSelector: options.fieldSelector }),
    });
    return {
      result: { resource, items: sorted(list.items), resourceVersion: list.metadata.resourceVersion },
      failures,
    };
  }
  if (request.namespaced && namespace === undefined) {
    throw invalidArgument('a resource cannot be retrieved by name across all namespaces');
  }
  const items: ResourceTypes[Resource][] = [];
  for (const name of request.names) {
    try {
      items.push(await kube.get(context.op, resource, { name, ...(namespace === undefined ? {} : { namespace }) }));
    } catch (error) {
      failures.push({ text: errorText(error), notFound: errorText(error).includes('(NotFound)') });
    }
  }
  const resourceVersion = items
    .map((item) => item.metadata.resourceVersion)
    .sort((a, b) => Number(a) - Number(b))
    .at(-1);
  return { result: { resource, items, resourceVersion: resourceVersion ?? '0' }, failures };
}

function sorted(items: readonly ResourceTypes[Resource][]): ResourceTypes[Resource][] {
  const key = (item: ResourceTypes[Resource]): string => {
    const namespace = (item.metadata as { namespace?: string }).namespace ?? '';
    // Events read best in the order in which they happened.
    if (item.kind === 'Event') return item.lastTimestamp ?? item.metadata.creationTimestamp;
    return `${namespace}/${item.metadata.name}`;
  };
  return [...items].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
}

async function print(
  context: CliContext,
  requests: readonly ResourceRequest[],
  found: readonly Found<Resource>[],
  options: GetOptions,
): Promise<void> {
  const { format } = options;
  const items = found.flatMap((part) => part.items);
  if (format === 'json' || format === 'yaml') {
    const single = requests.length === 1 && requests[0]?.names.length === 1;
    if (single && items.length === 0) return;
    const value = single ? items[0] : { apiVersion: 'v1', kind: 'List', metadata: { resourceVersion: '' }, items };
    await context.out.write(structured(format, value));
    return;
  }
  if (format === 'name') {
    for (const part of found) {
      for (const item of part.items) await line(context.out, `${singularOf(part.resource)}/${item.metadata.name}`);
    }
    return;
  }
  let first = true;
  for (const part of found) {
    if (part.items.length === 0) continue;
    if (!first) await line(context.out);
    first = false;
    const table = tableOptions(context, options);
    const rows = part.items.map((item) => rowOf(part.resource, item, table));
    const lines = layOut(headerOf(part.resource, table), rows);
    for (const text of options.noHeaders ? lines.slice(1) : lines) await line(context.out, text);
  }
  if (items.length === 0 && !options.watch && requests.every((request) => request.names.length === 0)) {
    const where = options.namespace === undefined ? '' : ` in ${options.namespace} namespace`;
    await line(context.err, `No resources found${requests.every((r) => r.namespaced) ? where : ''}`);
  }
}

function tableOptions(context: CliContext, options: GetOptions): TableOptions {
  return {
    wide: options.format === 'wide',
    showNamespace: options.namespace === undefined,
    nowMs: context.clock.wallMs(),
  };
}

/** Prints a row for each change, until the watch or the user ends it. */
async function watch(
  context: CliContext,
  kube: KubeClient,
  request: ResourceRequest,
  from: Found<Resource>,
  options: GetOptions,
): Promise<void> {
  const { resource, names, namespaced } = request;
  const table = tableOptions(context, options);
  let widths = columnWidths([headerOf(resource, table), ...from.items.map((item) => rowOf(resource, item, table))]);
  let headerDue = from.items.length === 0 && !options.noHeaders;
  const events = kube.watch(context.op, resource, {
    resourceVersion: from.resourceVersion,
    ...(namespaced && options.namespace !== undefined ? { namespace: options.namespace } : {}),
    ...(options.selector === undefined ? {} : { labelSelector: options.selector }),
    ...(options.fieldSelector === undefined ? {} : { fieldSelector: options.fieldSelector }),
  });
  for await (const event of events) {
    if (event.type === 'BOOKMARK') continue;
    const { object } = event;
    if (names.length > 0 && !names.includes(object.metadata.name)) continue;
    if (options.format === 'json' || options.format === 'yaml') {
      await context.out.write(structured(options.format, object));
      continue;
    }
    if (options.format === 'name') {
      await line(context.out, `${singularOf(resource)}/${object.metadata.name}`);
      continue;
    }
    const now = tableOptions(context, options);
    const row = rowOf(resource, object, now);
    const header = headerOf(resource, now);
    widths = columnWidths([widths.map((width) => ' '.repeat(width)), header, row]);
    if (headerDue) await line(context.out, formatRow(header, widths));
    headerDue = false;
    await line(context.out, formatRow(row, widths));
  }
}
