import type { ServerVersion } from '../../kube/gantry-extensions.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { errorText } from '../error-text.ts';
import { PACKAGE_VERSION } from '../../lib/package-version.ts';

export interface VersionOptions {
  readonly clientOnly: boolean;
  readonly format: OutputFormat;
}

/** `gantry version`: of this program and of the daemon it talks to. */
export async function version(context: CliContext, options: VersionOptions): Promise<ExitCode> {
  const client = { version: PACKAGE_VERSION, node: process.version };
  let server: ServerVersion | undefined;
  let failure: string | undefined;
  if (!options.clientOnly) {
    try {
      server = await (await context.api()).serverVersion(context.op);
    } catch (error) {
      failure = errorText(error);
    }
  }
  if (options.format === 'json' || options.format === 'yaml') {
    await context.out.write(await structured(options.format, { client, ...(server === undefined ? {} : { server }) }));
  } else {
    await line(context.out, `Client: gantry ${client.version} (Node ${client.node})`);
    if (server !== undefined) await line(context.out, `Server: ${server.gitVersion}`);
  }
  if (failure !== undefined) await line(context.err, failure);
  return failure === undefined ? 0 : 1;
}
