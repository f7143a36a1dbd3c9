/**
 * The line, from 1, of a key in a TOML text that could be parsed; for '' that of the table's own header. Undefined where it is written in
 * a way that this does not follow (dotted keys, inline tables).
 *
 * @param table its name as in a header with double quotes (`host."https://a"`); '' is the top of the file
 */
export function lineOfKey(text: string, table: string, key: string): number | undefined {
  let inTable = table === '';
  for (const [index, line] of text.split('\n').entries()) {
    const header = /^\s*\[([^[].*)\]\s*(#.*)?$/.exec(line)?.[1];
    if (header !== undefined) {
      inTable = plain(header) === plain(table);
      if (inTable && key === '') return index + 1;
    } else if (inTable && key !== '' && plain(line.split('=')[0] ?? '') === plain(key)) return index + 1;
  }
  return undefined;
}

function plain(name: string): string {
  return name.replaceAll(/["'\s]/g, '');
}
