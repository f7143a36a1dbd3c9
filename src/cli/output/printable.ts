/** C0, DEL, C1, line and paragraph separator, and what turns the direction of text round. */
// eslint-disable-next-line no-control-regex -- it is about them
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Text that somebody else wrote, for a cell or a part of a line on a terminal: control characters are escaped, as in JSON. A mount path
 * with a newline must not look like a line of ours, nor an event's message clear the screen.
 */
export function printable(text: string): string {
  return text.replace(CONTROL, (character) => SHORT[character] ?? escaped(character));
}

/** The same for text that may have lines: each without what else controls a terminal. */
export function printableLines(text: string): string[] {
  return text
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
    .map(printable);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
