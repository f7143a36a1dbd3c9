import { chooseContainer } from '../choose-container.ts';
import type { CliContext, ExitCode } from '../context.ts';
import type { LogOptions } from '../../kube/gantry-extensions.ts';

/** `gantry logs`: what a container wrote. */
export async function logs(context: CliContext, options: LogOptions): Promise<ExitCode> {
  const { gantry, kube } = await context.api();
  const container = await chooseContainer(context, kube, options);
  const request = { ...options, ...(container === undefined ? {} : { container }) };
  for await (const chunk of gantry.logs(context.op, request)) await context.out.write(chunk);
  return 0;
}
