import { get } from './get.ts';
import type { CliContext, ExitCode } from '../context.ts';
import { invalidArgument } from '../../lib/errors.ts';
import { resourceNamed } from '../resources.ts';

export interface EventsOptions {
  readonly namespace: string | undefined;
  /** `KIND/NAME` */
  readonly forObject?: string;
  /** `Normal,Warning` */
  readonly types?: string;
  readonly watch: boolean;
  readonly noHeaders: boolean;
  /** As `-o` has it. */
  readonly output: string | undefined;
}

const KINDS: Readonly<Record<string, string>> = {
  pods: 'Pod',
  configmaps: 'ConfigMap',
  secrets: 'Secret',
  nodes: 'Node',
  namespaces: 'Namespace',
};

/** `gantry events`: what happened, oldest first. */
export async function events(context: CliContext, options: EventsOptions): Promise<ExitCode> {
  const fields: string[] = [];
  if (options.forObject !== undefined) {
    const [kind, name, ...rest] = options.forObject.split('/');
    if (kind === undefined || name === undefined || name === '' || rest.length > 0) {
      throw invalidArgument(`--for ${options.forObject}: it should be KIND/NAME`);
    }
    const objectKind = KINDS[resourceNamed(kind).resource];
    fields.push(`involvedObject.kind=${objectKind ?? kind}`, `involvedObject.name=${name}`);
  }
  if (options.types !== undefined) {
    const types = options.types.split(',');
    const unknown = types.find((type) => type !== 'Normal' && type !== 'Warning');
    if (unknown !== undefined) throw invalidArgument(`--types ${unknown}: valid types are Normal and Warning`);
    if (types.length === 1) fields.push(`type=${types[0] ?? ''}`);
  }
  return await get(context, ['events'], {
    namespace: options.namespace,
    output: options.output,
    watch: options.watch,
    noHeaders: options.noHeaders,
    ignoreNotFound: false,
    ...(fields.length === 0 ? {} : { fieldSelector: fields.join(',') }),
  });
}
