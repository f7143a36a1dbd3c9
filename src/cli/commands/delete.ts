import { childSignal } from '../../lib/abort.ts';
import { invalidArgument, isKind } from '../../lib/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ApiConnection } from '../../kube/gantry-extensions.ts';
import type { KubeObject, Resource } from '../../kube/objects.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { errorText } from '../error-text.ts';
import { readManifests } from '../manifests.ts';
import { printable } from '../output/printable.ts';
import { parseResourceArgs, singularOf } from '../resources.ts';

export interface DeleteCommandOptions {
  readonly files: readonly string[];
  readonly recursive: boolean;
  readonly namespace: string | undefined;
  readonly all: boolean;
  readonly selector?: string;
  readonly gracePeriodSeconds?: number;
  readonly wait: boolean;
  /** 0: no limit. */
  readonly timeoutMs: number;
  readonly dryRun: boolean;
  readonly ignoreNotFound: boolean;
  /** Print `pod/web`, nothing more. */
  readonly nameOnly: boolean;
}

interface Target {
  readonly resource: Resource;
  readonly name: string;
  readonly namespace?: string;
}

const BLOCK_LOOK_MS = 500;

/** `gantry delete`: asks for the end of objects and waits until they are gone. */
export async function deleteObjects(
  context: CliContext,
  args: readonly string[],
  options: DeleteCommandOptions,
): Promise<ExitCode> {
  const connection = await context.api();
  const { targets, broken } =
    options.files.length > 0
      ? await targetsOfFiles(context, args, options)
      : { targets: await findTargets(context, connection.kube, args, options), broken: false };
  if (targets.length === 0 && !broken) await line(context.out, 'No resources found');
  const codes = await Promise.all(targets.map((target) => deleteOne(context, connection, target, options)));
  return broken || codes.some((code) => code !== 0) ? 1 : 0;
}

async function targetsOfFiles(
  context: CliContext,
  args: readonly string[],
  options: DeleteCommandOptions,
): Promise<{ targets: Target[]; broken: boolean }> {
  if (args.length > 0) throw invalidArgument('names cannot be used together with -f');
  const { objects, broken } = await readManifests(context, options);
  const targets = objects.map(({ object, resource }): Target => {
    const { name = '', namespace } = object.metadata as { name?: string; namespace?: string };
    const clusterWide = resource === 'nodes' || resource === 'namespaces';
    return { resource, name, ...(clusterWide ? {} : { namespace: namespace ?? options.namespace ?? 'default' }) };
  });
  return { targets, broken };
}

async function findTargets(
  context: CliContext,
  kube: KubeClient,
  args: readonly string[],
  options: DeleteCommandOptions,
): Promise<Target[]> {
  const targets: Target[] = [];
  for (const request of parseResourceArgs(args)) {
    const namespace = request.namespaced ? options.namespace : undefined;
    if (request.names.length > 0) {
      if (options.all || options.selector !== undefined)
        throw invalidArgument('names cannot be used together with --all or a selector');
      if (request.namespaced && namespace === undefined) {
        throw invalidArgument('a resource cannot be deleted by name across all namespaces');
      }
      for (const name of request.names) {
        targets.push({ resource: request.resource, name, ...(namespace === undefined ? {} : { namespace }) });
      }
      continue;
    }
    if (!options.all && options.selector === undefined) {
      throw invalidArgument(
        `resource(s) were provided, but no name: name some ${request.resource}, or use --all or -l`,
      );
    }
    const list = await kube.list(context.op, request.resource, {
      ...(namespace === undefined ? {} : { namespace }),
      ...(options.selector === undefined ? {} : { labelSelector: options.selector }),
    });
    for (const { metadata } of list.items as KubeObject[]) {
      const inNamespace = (metadata as { namespace?: string }).namespace;
      targets.push({
        resource: request.resource,
        name: metadata.name,
        ...(inNamespace === undefined ? {} : { namespace: inNamespace }),
      });
    }
  }
  return targets;
}

async function deleteOne(
  context: CliContext,
  { kube, gantry }: ApiConnection,
  target: Target,
  options: DeleteCommandOptions,
): Promise<ExitCode> {
  const { resource, name, namespace } = target;
  const key = { name, ...(namespace === undefined ? {} : { namespace }) };
  try {
    const deleted = await kube.delete(context.op, resource, key, {
      dryRun: options.dryRun,
      ...(options.gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: options.gracePeriodSeconds }),
    });
    const shown = `${singularOf(resource)}/${name}`;
    const words = options.nameOnly
      ? shown
      : `${singularOf(resource)} "${name}" ${options.gracePeriodSeconds === 0 ? 'force deleted' : 'deleted'}`;
    await line(context.out, `${words}${options.dryRun ? ' (dry run)' : ''}`);
    if (options.dryRun || !options.wait) return 0;
    await waitUntilGone(context, kube, target, deleted.metadata.uid, options.timeoutMs);
    if (resource === 'pods' && namespace !== undefined) {
      await nameBlockedVolumes(context, gantry, { name, namespace, uid: deleted.metadata.uid });
    }
    return 0;
  } catch (error) {
    if (options.ignoreNotFound && isKind(error, 'NotFound')) return 0;
    await line(context.err, errorText(error));
    return 1;
  }
}

async function waitUntilGone(
  context: CliContext,
  kube: KubeClient,
  target: Target,
  uid: string,
  timeoutMs: number,
): Promise<void> {
  using child = childSignal(
    context.op.signal,
    timeoutMs === 0
      ? undefined
      : {
          clock: context.clock,
          timeoutMs,
          what: `waiting for ${singularOf(target.resource)}/${target.name} to be gone`,
        },
  );
  const op = { ...context.op, signal: child.signal };
  const watching = {
    fieldSelector: `metadata.name=${target.name}`,
    ...(target.namespace === undefined ? {} : { namespace: target.namespace }),
  };
  for (;;) {
    const list = await kube.list(op, target.resource, watching);
    if (!list.items.some((item) => item.metadata.uid === uid)) return;
    for await (const event of kube.watch(op, target.resource, {
      ...watching,
      resourceVersion: list.metadata.resourceVersion,
    })) {
      if (event.type === 'DELETED' && event.object.metadata.uid === uid) return;
    }
    // The watch ended by itself: look again, unless it was us.
    op.signal.throwIfAborted();
  }
}

/** A volume that could not be torn down does not hold the object, but the user has to know of it. */
async function nameBlockedVolumes(
  context: CliContext,
  gantry: ApiConnection['gantry'],
  pod: { name: string; namespace: string; uid: string },
): Promise<void> {
  const look = async (): Promise<readonly { message: string }[]> =>
    (await gantry.explain(context.op, pod)).pending.filter((work) => work.what.startsWith('volume'));
  let pending = await look();
  if (pending.length > 0) {
    await context.clock.sleep(BLOCK_LOOK_MS, context.op.signal);
    pending = await look();
  }
  for (const work of pending)
    await line(context.err, `Warning: pod "${pod.name}" is gone, but ${printable(work.message)}`);
}
