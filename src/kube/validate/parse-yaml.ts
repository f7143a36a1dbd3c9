import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  visit,
  type Document,
  type ScalarTag,
} from 'yaml';
import { invalidArgument, messageOf } from '../../lib/errors.ts';
import type { FieldPath } from './issue.ts';

/** One document of a YAML or JSON text, with the way back from a field to its line. */
export interface ParsedDocument {
  readonly value: unknown;
  /** 1 for the first line of the text. The line of the nearest enclosing field if the path itself is not there. */
  lineOf(path: FieldPath): number;
  /** Keys that YAML 1.1 reads as something else than text: `on:`, `yes:`, `1:`. */
  readonly oddKeys: readonly { readonly key: string; readonly line: number }[];
}

/** Aliases may stand for this many nodes altogether: enough for any manifest, too few for a "billion laughs". */
const MAX_ALIASES = 1000;

/**
 * Reads YAML as Kubernetes does, by the rules of YAML 1.1 (`0644` is octal, `yes` is true) but without timestamps and
 * without numbers to the base 60. JSON is read as the YAML that it is. Empty documents are left out.
 *
 * @throws InvalidArgument with the line
 */
export function parseYaml(text: string): ParsedDocument[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, {
    version: '1.1',
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: true,
    customTags: (tags) => [
      OCTAL,
      ...tags.filter(
        (tag) => typeof tag === 'string' || (tag.tag !== TIMESTAMP && !('format' in tag && tag.format === 'TIME')),
      ),
    ],
  });
  if (!Array.isArray(documents)) return [];
  const parsed: ParsedDocument[] = [];
  for (const document of documents) {
    const [error] = document.errors;
    if (error !== undefined) {
      throw invalidArgument(`not valid YAML: ${error.message}`, {
        details: { line: lines.linePos(error.pos[0]).line },
      });
    }
    if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) continue;
    parsed.push({
      value: plain(document, lines),
      lineOf: (path) => lineOf(document, lines, path),
      oddKeys: oddKeys(document, lines),
    });
  }
  return parsed;
}

const TIMESTAMP = 'tag:yaml.org,2002:timestamp';

/** The octal numbers of YAML 1.2, which Kubernetes takes as well: `0o644`. */
const OCTAL: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  format: 'OCT',
  test: /^0o[0-7]+$/,
  resolve: (text) => Number.parseInt(text.slice(2), 8),
};

function plain(document: Document.Parsed, lines: LineCounter): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    const line = lines.linePos(document.range[0]).line;
    throw invalidArgument(`not valid YAML: ${messageOf(error)}`, { cause: error, details: { line } });
  }
}

function lineOf(document: Document.Parsed, lines: LineCounter, path: FieldPath): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === part);
      if (pair === undefined) break;
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof part === 'number') {
      node = node.items[part];
      if (isNode(node)) offset = node.range?.[0] ?? offset;
    } else break;
  }
  return lines.linePos(offset).line;
}

function oddKeys(document: Document.Parsed, lines: LineCounter): { key: string; line: number }[] {
  const odd: { key: string; line: number }[] = [];
  visit(document, {
    Pair: (_, { key }) => {
      if (isScalar(key) && typeof key.value !== 'string' && key.source !== undefined && key.value !== null) {
        odd.push({ key: key.source, line: lines.linePos(key.range?.[0] ?? 0).line });
      }
    },
  });
  return odd;
}
