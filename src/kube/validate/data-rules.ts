import type { ConfigMap, KubeObject, New, Secret } from '../objects.ts';
import { invalid, required, tooLong, type FieldPath, type Issue } from './issue.ts';

/** What a ConfigMap or a Secret may hold altogether. */
const MAX_DATA_BYTES = 1024 * 1024;

/** Rules for the content of ConfigMaps and Secrets. */
export function dataRules(object: New<KubeObject>): Issue[] {
  if (object.kind === 'ConfigMap') {
    const { data = {}, binaryData = {} } = object as New<ConfigMap>;
    const issues = base64Issues(binaryData, ['binaryData']);
    for (const key of Object.keys(binaryData)) {
      if (Object.hasOwn(data, key)) issues.push(invalid(['binaryData'], key, `duplicate of key present in data`));
    }
    if (textBytes(data) + decodedBytes(binaryData) > MAX_DATA_BYTES) issues.push(tooLong([], MAX_DATA_BYTES));
    return issues;
  }
  const { data = {}, stringData = {}, type } = object as New<Secret>;
  const issues = base64Issues(data, ['data']);
  if (textBytes(stringData) + decodedBytes(data) > MAX_DATA_BYTES) issues.push(tooLong(['data'], MAX_DATA_BYTES));
  if (issues.length === 0) issues.push(...typeRules(type, data, stringData));
  return issues;
}

function typeRules(
  type: string | undefined,
  data: Record<string, string>,
  stringData: Record<string, string>,
): Issue[] {
  const key = type === undefined ? undefined : JSON_KEYS[type];
  if (key === undefined) return [];
  const encoded = data[key];
  const text = stringData[key] ?? (encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString());
  if (text === undefined) return [required(['data', key])];
  try {
    JSON.parse(text);
    return [];
  } catch {
    // Never the content: it holds passwords.
    return [invalid(['data', key], '<secret contents redacted>', 'must be valid JSON')];
  }
}

const JSON_KEYS: Readonly<Record<string, string>> = {
  'kubernetes.io/dockercfg': '.dockercfg',
  'kubernetes.io/dockerconfigjson': '.dockerconfigjson',
};

function base64Issues(data: Record<string, string>, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  for (const [key, value] of Object.entries(data)) {
    if (!isBase64(value)) issues.push(invalid([...at, key], '<contents redacted>', 'must be base64'));
  }
  return issues;
}

/** Standard base64 with padding; line breaks are allowed, as the API's decoder does. */
function isBase64(value: string): boolean {
  const packed = value.replaceAll(/[\r\n]/g, '');
  return packed.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(packed);
}

function textBytes(data: Record<string, string>): number {
  return Object.values(data).reduce((sum, value) => sum + Buffer.byteLength(value), 0);
}

function decodedBytes(data: Record<string, string>): number {
  return Object.values(data).reduce((sum, value) => sum + Math.floor((value.length * 3) / 4), 0);
}
