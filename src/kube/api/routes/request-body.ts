import type { IncomingMessage } from 'node:http';
import { messageOf } from '../../../lib/errors.ts';
import { apiError } from '../../status-error.ts';
import { parseYaml } from '../../validate/parse-yaml.ts';
import { decodeProtobuf } from './protobuf-body.ts';

/** What etcd takes, and so what all of Kubernetes' clients expect to be the limit. */
export const MAX_BODY_BYTES = 1_572_864;

/** The content type without its parameters; JSON if the client does not say. */
export function contentTypeOf(request: IncomingMessage): string {
  const [type = ''] = (request.headers['content-type'] ?? '').split(';');
  return type.trim().toLowerCase() || 'application/json';
}

/**
 * The body as JSON, YAML or protobuf says it; undefined if there is none.
 *
 * @throws RequestEntityTooLarge (413), UnsupportedMediaType (415), BadRequest (400)
 */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const type = contentTypeOf(request);
  const bytes = await readBytes(request);
  if (bytes.byteLength === 0) return undefined;
  if (type === 'application/vnd.kubernetes.protobuf') return decodeProtobuf(bytes);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw apiError('BadRequest', `the body is not valid UTF-8: ${messageOf(error)}`);
  }
  if (type.endsWith('yaml')) return fromYaml(text);
  if (type !== 'application/json' && !type.endsWith('+json')) {
    throw apiError(
      'UnsupportedMediaType',
      `the body of the request was in an unknown format (${type}): accepted are application/json and application/yaml`,
    );
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw apiError('BadRequest', `the body is not valid JSON: ${messageOf(error)}`);
  }
}

function fromYaml(text: string): unknown {
  let documents: ReturnType<typeof parseYaml>;
  try {
    documents = parseYaml(text);
  } catch (error) {
    throw apiError('BadRequest', messageOf(error));
  }
  if (documents.length > 1)
    throw apiError('BadRequest', `the body must be one YAML document, this one has ${documents.length}`);
  return documents[0]?.value;
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooLarge(): Error {
  return apiError('RequestEntityTooLarge', `Request entity too large: limit is ${MAX_BODY_BYTES} bytes`);
}
