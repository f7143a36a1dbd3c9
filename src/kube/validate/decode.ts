import { GantryError, invalidArgument, messageOf } from '../../lib/errors.ts';
import type { KubeObject, New, Resource } from '../objects.ts';
import { checkObject } from './check-object.ts';
import { isRecord } from './check-shape.ts';
import { renderIssue, type FieldPath } from './issue.ts';
import { parseYaml, type ParsedDocument } from './parse-yaml.ts';

/** What the API accepts for one request, and so for a manifest: etcd's limit, which all of Kubernetes lives with. */
export const MAX_OBJECT_BYTES = 1_572_864;

export interface DecodedObject {
  readonly object: New<KubeObject>;
  readonly resource: Resource;
  /** Where it begins: `hello.yaml:12`. */
  readonly source: string;
}

export interface DecodedManifest {
  /** In the order of the text; the items of a List one by one. As written: what is left out is filled in by the API. */
  readonly objects: DecodedObject[];
  /** `hello.yaml:12: spec.nodeSelector: ignored by Gantry: …` */
  readonly warnings: string[];
}

/**
 * Reads a manifest: one or more YAML or JSON documents. Everything that is wrong with it is said at once.
 *
 * @param source what to call the text in messages: the name of the file, `stdin`
 * @throws InvalidArgument, one line for each thing that is wrong: `hello.yaml:12: spec.containers[0].name: Required value`
 */
export function decodeManifest(content: string | Uint8Array, source: string): DecodedManifest {
  const bytes = typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength;
  if (bytes > MAX_OBJECT_BYTES) {
    throw invalidArgument(
      `${source}: too large: ${bytes} bytes, where ${MAX_OBJECT_BYTES} (1.5 MiB) is the most that is accepted`,
    );
  }
  const text = typeof content === 'string' ? content : decodeUtf8(content, source);
  // eslint-disable-next-line no-control-regex -- these are what tells a binary file from a text
  if (/[\u0000-\u0008\u000e-\u001a]/.test(text)) throw invalidArgument(`${source}: not a text file`);
  const complaints: string[] = [];
  const warnings: string[] = [];
  const objects: DecodedObject[] = [];
  for (const { value, path, document } of itemsOf(parse(text, source))) {
    const checked = checkObject(value);
    const say = (at: FieldPath, message: string): string =>
      `${source}:${document.lineOf([...path, ...at])}: ${message}`;
    for (const issue of checked.issues) complaints.push(say(issue.path, renderIssue(issue)));
    for (const warning of checked.warnings) warnings.push(say(warning.path, renderIssue(warning)));
    if (checked.issues.length > 0 || checked.info === undefined) continue;
    if (
      'status' in checked.object &&
      isRecord(checked.object.status) &&
      Object.keys(checked.object.status).length > 0
    ) {
      warnings.push(say(['status'], 'status: ignored: only what runs the object writes it'));
    }
    objects.push({
      object: checked.object,
      resource: checked.info.resource,
      source: `${source}:${document.lineOf(path)}`,
    });
  }
  if (complaints.length > 0)
    throw invalidArgument(complaints.join('\n'), { details: { source, count: complaints.length } });
  if (objects.length === 0)
    throw invalidArgument(`${source}: no Kubernetes objects in it${bytes === 0 ? ': the file is empty' : ''}`);
  return { objects, warnings };

  function* itemsOf(
    documents: readonly ParsedDocument[],
  ): Generator<{ value: unknown; path: FieldPath; document: ParsedDocument }> {
    for (const document of documents) {
      for (const { key, line } of document.oddKeys) {
        warnings.push(`${source}:${line}: the key ${key} is not text in YAML 1.1; put it in quotes`);
      }
      const { value } = document;
      if (isRecord(value) && value['kind'] === 'List' && Array.isArray(value['items'])) {
        for (const [index, item] of value['items'].entries()) yield { value: item, path: ['items', index], document };
      } else yield { value, path: [], document };
    }
  }
}

function decodeUtf8(content: Uint8Array, source: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content);
  } catch (error) {
    throw invalidArgument(`${source}: not a text file (not valid UTF-8)`, { cause: error });
  }
}

function parse(text: string, source: string): ParsedDocument[] {
  try {
    return parseYaml(text);
  } catch (error) {
    const line = error instanceof GantryError ? error.details['line'] : undefined;
    const where = typeof line === 'number' ? `${source}:${line}` : source;
    throw invalidArgument(`${where}: ${messageOf(error)}`, { cause: error });
  }
}
