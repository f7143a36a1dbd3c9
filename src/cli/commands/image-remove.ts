import { errorText } from '../error-text.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';

/** `gantry image rm` */
export async function imageRemove(
  context: CliContext,
  references: readonly string[],
  options: { readonly force: boolean },
): Promise<ExitCode> {
  const { gantry } = await context.api();
  let code: ExitCode = 0;
  for (const reference of references) {
    try {
      const removed = await gantry.removeImage(context.op, reference, options);
      for (const gone of removed) await line(context.out, `Deleted: ${gone}`);
    } catch (error) {
      await line(context.err, errorText(error));
      code = 1;
    }
  }
  return code;
}
