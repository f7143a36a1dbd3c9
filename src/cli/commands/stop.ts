import { errorText } from '../error-text.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';

export interface StopOptions {
  readonly namespace: string;
  readonly timeoutSeconds?: number;
  readonly signal?: string;
}

/**
 * `gantry stop`: ends containers side by side. Each that ended is printed as it ends, the errors come together at the end
 * (BEHAVIOUR.md 81).
 */
export async function stop(
  context: CliContext,
  containers: readonly string[],
  options: StopOptions,
): Promise<ExitCode> {
  const { gantry } = await context.api();
  const failures: string[] = [];
  await Promise.all(
    [...new Set(containers)].map(async (container) => {
      try {
        await gantry.stop(context.op, { container, ...options });
        await line(context.out, container);
      } catch (error) {
        failures.push(errorText(error));
      }
    }),
  );
  if (failures.length > 0) await line(context.err, failures.join('\n'));
  return failures.length > 0 ? 1 : 0;
}
