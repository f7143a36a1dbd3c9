import type { TableOptions } from '../output/columns.ts';
import { parseObjectFormat, type ObjectFormat, type Rows } from '../output/object-format.ts';
import { sortObjects } from '../output/sort-objects.ts';
import { columnWidths, formatRow, layOut } from '../output/table.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { namesSeveralKinds, parseResourceArgs, singularOf, type ResourceRequest } from '../resources.ts';
import { errorText } from '../error-text.ts';
import { invalidArgument } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource, ResourceTypes } from '../../kube/objects.ts';

export interface GetOptions {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  /** As `-o` has it. */
  readonly output: string | undefined;
  /** `only`: what is there already is not shown. */
  readonly watch: boolean | 'only';
  readonly showLabels?: boolean;
  /** A JSONPath. */
  readonly sortBy?: string;
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

/** What is asked for, read and checked. */
interface Question extends GetOptions {
  readonly requests: readonly ResourceRequest[];
  readonly format: ObjectFormat;
  readonly showKind: boolean;
}

/** `gantry get`: lists objects, or shows some by name. */
export async function get(context: CliContext, args: readonly string[], options: GetOptions): Promise<ExitCode> {
  const question = read(args, options);
  const { requests } = question;
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
  if (options.watch !== 'only') await print(context, found, question);
  if (options.watch !== false && found[0] !== undefined && requests[0] !== undefined) {
    await watch(context, kube, requests[0], found[0], question);
  }
  return code;
}

function read(args: readonly string[], options: GetOptions): Question {
  const requests = parseResourceArgs(args);
  if (options.watch !== false && requests.length > 1)
    throw invalidArgument('you may only watch one kind of resource at a time');
  if (requests.some((r) => r.names.length > 0) && (options.selector ?? options.fieldSelector) !== undefined) {
    throw invalidArgument('names and a selector cannot be used together');
  }
  const format = parseObjectFormat(options.output);
  if (options.showLabels === true && !(format.kind === 'rows' && format.byKind)) {
    throw invalidArgument(`--show-labels is for tables, and cannot be used with -o ${options.output ?? ''}`);
  }
  return { ...options, requests, format, showKind: namesSeveralKinds(args, requests) };
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
      result: { resource, items: sorted(list.items, options.sortBy), resourceVersion: list.metadata.resourceVersion },
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
  const inOrder = options.sortBy === undefined ? items : sortObjects(items, options.sortBy);
  return { result: { resource, items: inOrder, resourceVersion: resourceVersion ?? '0' }, failures };
}

function sorted(items: readonly ResourceTypes[Resource][], sortBy: string | undefined): ResourceTypes[Resource][] {
  if (sortBy !== undefined) return sortObjects(items, sortBy);
  const key = (item: ResourceTypes[Resource]): string => {
    const namespace = (item.metadata as { namespace?: string }).namespace ?? '';
    // Events read best in the order in which they happened.
    if (item.kind === 'Event') return item.lastTimestamp ?? item.metadata.creationTimestamp;
    return `${namespace}/${item.metadata.name}`;
  };
  return [...items].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
}

async function print(context: CliContext, found: readonly Found<Resource>[], question: Question): Promise<void> {
  const { format, requests } = question;
  const items = found.flatMap((part) => part.items);
  switch (format.kind) {
    case 'whole': {
      const single = requests.length === 1 && requests[0]?.names.length === 1;
      if (single && items.length === 0) return;
      const value = single ? items[0] : { apiVersion: 'v1', kind: 'List', metadata: { resourceVersion: '' }, items };
      await context.out.write(await format.text(value));
      return;
    }
    case 'name':
      for (const part of found) {
        for (const item of part.items) await line(context.out, `${singularOf(part.resource)}/${item.metadata.name}`);
      }
      return;
    case 'rows':
      await printRows(context, found, format, question);
  }
  if (items.length === 0 && question.watch === false && requests.every((request) => request.names.length === 0)) {
    const where = question.namespace === undefined ? '' : ` in ${question.namespace} namespace`;
    await line(context.err, `No resources found${requests.every((r) => r.namespaced) ? where : ''}`);
  }
}

async function printRows(
  context: CliContext,
  found: readonly Found<Resource>[],
  { byKind, header, row }: Rows,
  question: Question,
): Promise<void> {
  const options = tableOptions(context, question);
  const tables = found
    .filter(({ items }) => items.length > 0)
    .map(({ resource, items }) => ({ resource, rows: items.map((item) => row(resource, item, options)) }));
  const [first] = tables;
  if (first === undefined) return;
  const shown = byKind ? tables : [{ resource: first.resource, rows: tables.flatMap(({ rows }) => rows) }];
  for (const [index, { resource, rows }] of shown.entries()) {
    if (index > 0) await line(context.out);
    const lines = layOut(header(resource, options), rows);
    for (const text of question.noHeaders ? lines.slice(1) : lines) await line(context.out, text);
  }
}

function tableOptions(context: CliContext, { namespace, showKind, showLabels }: Question): TableOptions {
  return {
    showNamespace: namespace === undefined,
    showKind,
    ...(showLabels === undefined ? {} : { showLabels }),
    nowMs: context.clock.wallMs(),
  };
}

/** Prints a row for each change, until the watch or the user ends it. */
async function watch(
  context: CliContext,
  kube: KubeClient,
  { resource, names, namespaced }: ResourceRequest,
  from: Found<Resource>,
  question: Question,
): Promise<void> {
  const { format, namespace, selector, fieldSelector } = question;
  const printed = question.watch === 'only' ? [] : from.items;
  const show = format.kind === 'rows' ? rowPrinter(context, resource, printed, format, question) : undefined;
  const events = kube.watch(context.op, resource, {
    resourceVersion: from.resourceVersion,
    ...(namespaced && namespace !== undefined ? { namespace } : {}),
    ...(selector === undefined ? {} : { labelSelector: selector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  });
  for await (const event of events) {
    if (event.type === 'BOOKMARK') continue;
    const { object } = event;
    if (names.length > 0 && !names.includes(object.metadata.name)) continue;
    if (format.kind === 'whole') await context.out.write(await format.text(object));
    else if (format.kind === 'name') await line(context.out, `${singularOf(resource)}/${object.metadata.name}`);
    else await show?.(object);
  }
}

/** Prints single rows below those that are there already, columns growing as they must. */
function rowPrinter(
  context: CliContext,
  resource: Resource,
  printed: readonly ResourceTypes[Resource][],
  { header, row }: Rows,
  question: Question,
): (object: ResourceTypes[Resource]) => Promise<void> {
  const options = (): TableOptions => tableOptions(context, question);
  let widths = columnWidths([header(resource, options()), ...printed.map((item) => row(resource, item, options()))]);
  let headerDue = printed.length === 0 && !question.noHeaders;
  return async (object) => {
    const cells = row(resource, object, options());
    const heading = header(resource, options());
    widths = columnWidths([widths.map((width) => ' '.repeat(width)), heading, cells]);
    if (headerDue) await line(context.out, formatRow(heading, widths));
    headerDue = false;
    await line(context.out, formatRow(cells, widths));
  };
}
