import type { CliContext, ExitCode } from '../context.ts';
import type { LogOptions } from '../../kube/gantry-extensions.ts';

/** `gantry logs`: what a container wrote. */
export async function logs(context: CliContext, options: LogOptions): Promise<ExitCode> {
  const { gantry } = await context.api();
  for await (const chunk of gantry.logs(context.op, options)) await context.out.write(chunk);
  return 0;
}
