import { readFile, writeFile } from 'node:fs/promises';

const DOCUMENT = new URL('../../docs/benchmarks.md', import.meta.url);
/** Above it stands what people wrote, and stays. */
const MARK = '<!-- npm run bench -- --write: what follows is written by it -->';

/** Puts the lines of a run in place of those of the one before. */
export async function writeDocument(lines: readonly string[], about: string): Promise<void> {
  const text = await readFile(DOCUMENT, 'utf8');
  const [words] = text.split(MARK);
  const date = new Date().toISOString().slice(0, 10);
  await writeFile(
    DOCUMENT,
    `${(words ?? '').trimEnd()}\n\n${MARK}\n\n${date}, ${about}\n\n${lines.join('\n').trimEnd()}\n`,
  );
}
