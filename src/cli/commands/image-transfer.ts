import { askGantry } from '../diagnosis-source.ts';
import type { ImageImport } from '../../lib/image-import.ts';
import { line, type CliContext, type ExitCode } from '../context.ts';
import { ProgressDisplay } from '../output/progress-display.ts';
import { internal } from '../../lib/errors.ts';
import type { ImageProgress, ImagePullRequest } from '../../kube/gantry-extensions.ts';

/** `gantry image pull` */
export async function imagePull(context: CliContext, request: ImagePullRequest): Promise<ExitCode> {
  const { gantry } = await context.api();
  return await show(context, gantry.pullImage(context.op, request));
}

/** `gantry image import` */
export async function imageImport(
  context: CliContext,
  request: ImageImport,
  runtimeEndpoint?: string,
): Promise<ExitCode> {
  return await askGantry(context, runtimeEndpoint, (gantry) => show(context, gantry.importImage(context.op, request)));
}

async function show(context: CliContext, progress: AsyncIterable<ImageProgress>): Promise<ExitCode> {
  const display = new ProgressDisplay(context.err, context.clock);
  let images = 0;
  try {
    for await (const item of progress) {
      if (item.kind === 'progress') {
        await display.update(item);
        continue;
      }
      await display.close();
      for (const tag of item.image.tags.length === 0 ? [item.image.id] : item.image.tags) await line(context.out, tag);
      images += 1;
    }
  } finally {
    await display.close();
  }
  if (images > 0) return 0;
  throw internal('the daemon ended the transfer without a result');
}
