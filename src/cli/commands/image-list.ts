import { line, type CliContext, type ExitCode } from '../context.ts';
import { structured, type OutputFormat } from '../output/format.ts';
import { humanSize } from '../output/size.ts';
import { layOut } from '../output/table.ts';

const SHORT_ID = 13;

/** `gantry image list` */
export async function imageList(context: CliContext, options: { readonly format: OutputFormat }): Promise<ExitCode> {
  const { gantry } = await context.api();
  const images = [...(await gantry.listImages(context.op))].sort((a, b) =>
    (a.tags[0] ?? '~') < (b.tags[0] ?? '~') ? -1 : 1,
  );
  if (options.format === 'json' || options.format === 'yaml') {
    await context.out.write(await structured(options.format, images));
    return 0;
  }
  const rows = images.flatMap((image) =>
    (image.tags.length === 0 ? ['<none>'] : image.tags).map((tag) => [
      tag,
      image.id.replace('sha256:', '').slice(0, SHORT_ID),
      humanSize(image.sizeBytes),
    ]),
  );
  for (const text of layOut(['IMAGE', 'IMAGE ID', 'SIZE'], rows)) await line(context.out, text);
  return 0;
}
