import { unavailable } from '../../lib/errors.ts';

/** Far beyond the largest object. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** Values of a stream of JSON, one a line. Throws Unavailable if the stream ends within a line or a line is no JSON. */
export async function* jsonLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<unknown, void, undefined> {
  let rest: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...rest, chunk.subarray(from, end)]).toString('utf8');
      rest = [];
      size = 0;
      from = end + 1;
      if (line.trim() !== '') yield parse(line);
    }
    if (from === chunk.byteLength) continue;
    rest.push(chunk.subarray(from));
    size += chunk.byteLength - from;
    if (size > MAX_LINE_BYTES) throw unavailable('the API sent a line without end');
  }
  if (size > 0) throw unavailable('the stream of the API ended in the middle of a line');
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch (error) {
    throw unavailable('the API sent a line that is not JSON', { cause: error });
  }
}
