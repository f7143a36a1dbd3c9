import { isDeepStrictEqual } from 'node:util';
import { invalidArgument, isKind } from '../../lib/errors.ts';
import type { Patch } from '../../kube/client.ts';
import type { ApiConnection } from '../../kube/gantry-extensions.ts';
import type { KubeObject } from '../../kube/objects.ts';
import type { DecodedObject } from '../../kube/validate/decode.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { errorText } from '../error-text.ts';
import { readManifests } from '../manifests.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { printable } from '../output/printable.ts';
import { singularOf } from '../resources.ts';
import { waitUntilReady } from '../wait-ready.ts';

export interface ApplyOptions {
  readonly files: readonly string[];
  readonly recursive: boolean;
  /** For objects that name none. */
  readonly namespace: string;
  /** Given on the command line: then an object that names another one is an error. */
  readonly namespaceGiven: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number;
  readonly dryRun: boolean;
  readonly format: OutputFormat;
}

const FIELD_MANAGER = 'gantry-apply';

/**
 * `gantry apply`: makes the cluster's objects as the manifests say. All manifests are read and checked before the first
 * object is sent; a mistake in the last document of a file leaves nothing of that file half applied.
 */
export async function apply(context: CliContext, options: ApplyOptions): Promise<ExitCode> {
  const manifests = await readManifests(context, options, ({ object, source }) => {
    placeInNamespace(object, source, options);
  });
  const { objects, warnings: said } = manifests;
  for (const warning of said) await line(context.err, `Warning: ${printable(warning)}`);

  const connection = await context.api();
  const applied: KubeObject[] = [];
  let code: ExitCode = manifests.broken ? 1 : 0;
  for (const decoded of objects) {
    try {
      applied.push(await applyOne(context, connection, decoded, said, options));
    } catch (error) {
      await line(context.err, errorText(error));
      code = 1;
    }
  }
  if (code === 0 && options.wait && !options.dryRun) {
    const pods = applied.filter((object) => object.kind === 'Pod');
    code = await waitUntilReady(context, connection.kube, pods, options.timeoutMs);
  }
  return code;
}

function placeInNamespace(object: DecodedObject['object'], source: string, options: ApplyOptions): void {
  if (object.kind === 'Node' || object.kind === 'Namespace') return;
  const { metadata } = object as { metadata: { namespace?: string; name?: string } };
  if (metadata.namespace === undefined) metadata.namespace = options.namespace;
  else if (options.namespaceGiven && metadata.namespace !== options.namespace) {
    throw invalidArgument(
      `${source}: the namespace of ${object.kind} ${metadata.name ?? ''} is "${metadata.namespace}", which is not the namespace "${options.namespace}" of the command`,
    );
  }
}

async function applyOne(
  context: CliContext,
  { kube }: ApiConnection,
  { object, resource }: DecodedObject,
  said: readonly string[],
  options: ApplyOptions,
): Promise<KubeObject> {
  const { name = '', namespace } = object.metadata as { name?: string; namespace?: string };
  const key = { name, ...(namespace === undefined ? {} : { namespace }) };
  const before = await kube.get(context.op, resource, key).catch((error: unknown) => {
    if (isKind(error, 'NotFound')) return undefined;
    throw error;
  });
  const patch: Patch = { type: 'apply', body: object, fieldManager: FIELD_MANAGER };
  const warnings: string[] = [];
  const outcome = { created: false, unchanged: false };
  const after = await kube.patch(context.op, resource, key, patch, {
    dryRun: options.dryRun,
    onCreated: () => (outcome.created = true),
    onUnchanged: () => (outcome.unchanged = true),
    // The manifest's own warnings have its line numbers: the server's twin of one says nothing new.
    onWarning: (warning) => {
      if (!said.some((earlier) => earlier.endsWith(warning))) warnings.push(warning);
    },
  });
  const shown = `${singularOf(resource)}/${name}`;
  if (after.metadata.deletionTimestamp !== undefined)
    warnings.push(`${shown} is being deleted, which this does not undo: apply it again when it is gone`);
  for (const warning of warnings) await line(context.err, `Warning: ${printable(warning)}`);
  if (options.format === 'json' || options.format === 'yaml') {
    await context.out.write(await structured(options.format, after));
    return after;
  }
  if (options.format === 'name') await line(context.out, shown);
  else await line(context.out, `${shown} ${verb(before, after, outcome)}${options.dryRun ? ' (dry run)' : ''}`);
  return after;
}

/**
 * What an apply did. Not by the version alone: the agent writes a pod's status between two looks of ours.
 *
 * @param before what was there before, if anything was: of a race for a new object it is not known
 * @param outcome what the API said of it; one that is not Gantry's does not say that nothing was changed
 */
export function verb(
  before: KubeObject | undefined,
  after: KubeObject,
  { created, unchanged }: { readonly created: boolean; readonly unchanged: boolean },
): 'created' | 'unchanged' | 'configured' {
  if (created) return 'created';
  if (unchanged) return 'unchanged';
  if (before === undefined) return 'configured';
  return isDeepStrictEqual(wanted(before), wanted(after)) ? 'unchanged' : 'configured';
}

/** The part of an object that a manifest can say something about. */
function wanted(object: KubeObject): unknown {
  return { ...object, metadata: { ...object.metadata, resourceVersion: '', managedFields: [] }, status: undefined };
}
