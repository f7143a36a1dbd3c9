import { errorText } from '../error-text.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { structured } from '../output/format.ts';
import type { ImageDetails } from '../../kube/gantry-extensions.ts';

/** `gantry image inspect`: a list, whatever the number of names, so that a script need not look first. */
export async function imageInspect(
  context: CliContext,
  references: readonly string[],
  options: { readonly format: 'json' | 'yaml' },
): Promise<ExitCode> {
  const { gantry } = await context.api();
  let code: ExitCode = 0;
  const found: ImageDetails[] = [];
  for (const reference of references) {
    try {
      found.push(await gantry.inspectImage(context.op, reference));
    } catch (error) {
      await line(context.err, errorText(error));
      code = 1;
    }
  }
  await context.out.write(await structured(options.format, found));
  return code;
}
