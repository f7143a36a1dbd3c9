import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { GantryError, messageOf } from '../../../lib/errors.ts';
import { apiError } from '../../status-error.ts';
import { setOwn } from '../../validate/check-shape.ts';

/**
 * Bodies in Kubernetes' protobuf. Go clients with types send nothing else (kubectl create namespace, configmap, secret) and do not fall
 * back to JSON, so the small kinds are read; what has no type in kubectl (apply, create -f, run) is JSON anyway.
 * Source: the envelope in https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding, the numbers in the
 * generated.proto files of k8s.io/api and k8s.io/apimachinery.
 */

type Value = 'text' | 'bytes' | 'integer' | 'flag' | Message;

interface Field {
  readonly name: string;
  readonly value: Value;
  readonly many?: 'list' | 'map';
  /** Go writes this one only where it is set: then 0 and false are values. */
  readonly pointer?: true;
}

/** By field number; `undefined` for what only a server fills in. */
type Message = Readonly<Record<number, Field | undefined>>;

const text = (name: string): Field => ({ name, value: 'text' });
const list = (name: string, value: Value): Field => ({ name, value, many: 'list' });
const map = (name: string, value: Value): Field => ({ name, value, many: 'map' });
const pointer = (name: string, value: Value): Field => ({ name, value, pointer: true });

const ownerReference: Message = {
  1: text('kind'),
  3: text('name'),
  4: text('uid'),
  5: text('apiVersion'),
  6: pointer('controller', 'flag'),
  7: pointer('blockOwnerDeletion', 'flag'),
};

const metadata: Field = {
  name: 'metadata',
  value: {
    1: text('name'),
    2: text('generateName'),
    3: text('namespace'),
    4: undefined,
    5: text('uid'),
    6: text('resourceVersion'),
    7: undefined,
    8: undefined,
    9: undefined,
    10: undefined,
    11: map('labels', 'text'),
    12: map('annotations', 'text'),
    13: list('ownerReferences', ownerReference),
    14: list('finalizers', 'text'),
    17: undefined,
  },
};

const KINDS: Readonly<Record<string, Message>> = {
  ConfigMap: { 1: metadata, 2: map('data', 'text'), 3: map('binaryData', 'bytes'), 4: pointer('immutable', 'flag') },
  Secret: {
    1: metadata,
    2: map('data', 'bytes'),
    3: text('type'),
    4: map('stringData', 'text'),
    5: pointer('immutable', 'flag'),
  },
  Namespace: { 1: metadata, 2: { name: 'spec', value: { 1: list('finalizers', 'text') } }, 3: undefined },
  DeleteOptions: {
    1: pointer('gracePeriodSeconds', 'integer'),
    2: { name: 'preconditions', value: { 1: pointer('uid', 'text'), 2: pointer('resourceVersion', 'text') } },
    3: pointer('orphanDependents', 'flag'),
    4: pointer('propagationPolicy', 'text'),
    5: list('dryRun', 'text'),
    6: pointer('ignoreStoreReadErrorWithClusterBreakingPotential', 'flag'),
  },
};

const MAGIC = Buffer.from('k8s\0');
const ENVELOPE: Message = {
  1: { name: 'type', value: { 1: text('apiVersion'), 2: text('kind') } },
  2: { name: 'raw', value: 'bytes' },
  3: text('contentEncoding'),
  4: text('contentType'),
};

interface Envelope {
  readonly type?: { readonly apiVersion?: string; readonly kind?: string };
  /** base64 */
  readonly raw?: string;
  readonly contentEncoding?: string;
  readonly contentType?: string;
}

/**
 * The object as JSON would have it.
 *
 * @throws UnsupportedMediaType (415) for a kind that is not read, BadRequest (400) for what is no such message
 */
export function decodeProtobuf(bytes: Uint8Array): Record<string, unknown> {
  if (!MAGIC.equals(bytes.subarray(0, MAGIC.length)))
    throw apiError('BadRequest', "the body does not begin as Kubernetes' protobuf does");
  const envelope: Envelope = decode(bytes.subarray(MAGIC.length), ENVELOPE, 'the body');
  const { type: { apiVersion = '', kind = '' } = {}, raw = '', contentEncoding = '', contentType = '' } = envelope;
  if (kind === '') throw apiError('BadRequest', 'the body names no kind');
  const message = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (message === undefined || contentEncoding !== '' || contentType !== '') {
    throw apiError(
      'UnsupportedMediaType',
      `a ${kind} is read as JSON or YAML here, and not as protobuf: use kubectl apply -f, or the content type application/json (as protobuf: ${Object.keys(KINDS).join(', ')})`,
    );
  }
  return { apiVersion, kind, ...decode(Buffer.from(raw, 'base64'), message, kind) };
}

function decode(bytes: Uint8Array, message: Message, what: string): Record<string, unknown> {
  try {
    return readMessage(new BinaryReader(bytes), bytes.byteLength, message, what);
  } catch (error) {
    if (error instanceof GantryError) throw error;
    throw apiError('BadRequest', `${what}: not valid protobuf: ${messageOf(error)}`);
  }
}

/** Up to `end`, a position of the reader. */
function readMessage(reader: BinaryReader, end: number, message: Message, what: string): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  while (reader.pos < end) {
    const [number, wireType] = reader.tag();
    if (!Object.hasOwn(message, number)) throw apiError('BadRequest', `${what}: unknown field number ${number}`);
    const field = message[number];
    if (field === undefined) reader.skip(wireType, number);
    else readField(reader, wireType, field, object, `${what}.${field.name}`);
  }
  if (reader.pos > end) throw apiError('BadRequest', `${what}: a field reaches beyond its end`);
  return object;
}

function readField(
  reader: BinaryReader,
  wireType: WireType,
  field: Field,
  object: Record<string, unknown>,
  what: string,
): void {
  const { name, value: type, many, pointer: isPointer = false } = field;
  const expected = type === 'integer' || type === 'flag' ? WireType.Varint : WireType.LengthDelimited;
  if (wireType !== expected) throw apiError('BadRequest', `${what}: of another type than expected`);
  if (many === 'map') {
    const { key, value = '' } = readNested(reader, { 1: text('key'), 2: { name: 'value', value: type } }, what);
    const entries = (object[name] ??= {}) as Record<string, unknown>;
    setOwn(entries, typeof key === 'string' ? key : '', value);
    return;
  }
  const value = readValue(reader, type, what);
  if (many === 'list') ((object[name] ??= []) as unknown[]).push(value);
  else if (isPointer || !isEmpty(value)) object[name] = value;
}

function readValue(reader: BinaryReader, type: Value, what: string): unknown {
  switch (type) {
    case 'text':
      return reader.string();
    case 'bytes':
      return Buffer.from(reader.bytes()).toString('base64');
    case 'integer':
      return Number(reader.int64());
    case 'flag':
      return reader.bool();
    default:
      return readNested(reader, type, what);
  }
}

function readNested(reader: BinaryReader, message: Message, what: string): Record<string, unknown> {
  const length = reader.uint32();
  return readMessage(reader, reader.pos + length, message, what);
}

/** What Go writes for a field that is not set. */
function isEmpty(value: unknown): boolean {
  if (value === '' || value === 0 || value === false) return true;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
