import { errorText } from '../error-text.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';

/** `gantry image rm` */
export async function imageRemove(context: CliContext, references: readonly string[]): Promise<ExitCode> {
  const { gantry } = await context.api();
  let code: ExitCode = 0;
  for (const reference of references) {
    try {
      for (const gone of await gantry.removeImage(context.op, reference)) await line(context.out, `Deleted: ${gone}`);
    } catch (error) {
      await line(context.err, errorText(error));
      code = 1;
    }
  }
  return code;
}
