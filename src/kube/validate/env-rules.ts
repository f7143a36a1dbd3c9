import type { Container, EnvVar, EnvVarSource } from '../objects.ts';
import { compareQuantities, isQuantity } from '../quantity.ts';
import { invalid, notSupported, required, type FieldPath, type Issue } from './issue.ts';
import { qualifiedName } from './names.ts';

/** What a container's environment may be made of. */
export function envRules(container: Container, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  for (const [index, env] of (container.env ?? []).entries()) issues.push(...envVarRules(env, [...at, 'env', index]));
  for (const [index, from] of (container.envFrom ?? []).entries()) {
    const path = [...at, 'envFrom', index];
    const sources = [from.configMapRef, from.secretRef].filter((source) => source !== undefined).length;
    if (sources === 0) issues.push(required(path, 'must specify one of: `configMapRef` or `secretRef`'));
    if (sources > 1) issues.push(invalid(path, '', 'may not have more than one field specified at a time'));
    const { prefix = '' } = from;
    if (prefix !== '' && !/^[\x20-\x3c\x3e-\x7e]+$/.test(prefix)) {
      issues.push(
        invalid([...path, 'prefix'], prefix, "must consist only of printable ASCII characters other than '='"),
      );
    }
  }
  return issues;
}

function envVarRules({ value = '', valueFrom }: EnvVar, at: FieldPath): Issue[] {
  if (valueFrom === undefined) {
    return value.includes('\0') ? [invalid([...at, 'value'], value, 'must not contain a NUL character')] : [];
  }
  const path = [...at, 'valueFrom'];
  const sources = Object.keys(valueFrom).length;
  if (sources === 0) {
    const why = 'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`';
    return [invalid(path, '', why)];
  }
  if (sources > 1) return [invalid(path, '', 'may not have more than one field specified at a time')];
  if (value !== '') return [invalid(path, '', 'may not be specified when `value` is not empty')];
  return [
    ...fieldRules(valueFrom.fieldRef, [...path, 'fieldRef']),
    ...resourceFieldRules(valueFrom.resourceFieldRef, [...path, 'resourceFieldRef']),
  ];
}

const FIELD_REFS: readonly string[] = [
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  "metadata.labels['<KEY>']",
  "metadata.annotations['<KEY>']",
  'spec.nodeName',
  'spec.serviceAccountName',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
];
const KEYED_FIELD_REF = /^metadata\.(?:labels|annotations)\['([^']*)'\]$/;

function fieldRules(fieldRef: EnvVarSource['fieldRef'], at: FieldPath): Issue[] {
  const { fieldPath } = fieldRef ?? {};
  if (fieldPath === undefined || FIELD_REFS.includes(fieldPath)) return [];
  const path = [...at, 'fieldPath'];
  const key = KEYED_FIELD_REF.exec(fieldPath)?.[1];
  if (key === undefined) return [notSupported(path, fieldPath, FIELD_REFS)];
  const why = qualifiedName(key.toLowerCase());
  return why === undefined ? [] : [invalid(path, fieldPath, why)];
}

const BYTE_DIVISORS = '1 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei'.split(' ');

/** What one unit may be when a resource is asked for as a number, by resource. */
const DIVISORS: Readonly<Record<string, readonly string[]>> = {
  cpu: ['1m', '1'],
  memory: BYTE_DIVISORS,
  'ephemeral-storage': BYTE_DIVISORS,
};

const RESOURCE_REFS: readonly string[] = ['limits', 'requests'].flatMap((group) =>
  Object.keys(DIVISORS).map((name) => `${group}.${name}`),
);

function resourceFieldRules(ref: EnvVarSource['resourceFieldRef'], at: FieldPath): Issue[] {
  if (ref === undefined) return [];
  const { resource, divisor = '0' } = ref;
  if (!RESOURCE_REFS.includes(resource)) return [notSupported([...at, 'resource'], resource, RESOURCE_REFS)];
  // Zero is how the API writes a divisor that was not given. One that is no quantity has been complained of.
  if (!isQuantity(divisor) || compareQuantities(divisor, '0') === 0) return [];
  const name = resource.slice(resource.indexOf('.') + 1);
  const allowed = DIVISORS[name] ?? [];
  if (allowed.some((each) => isWrittenAs(divisor, each))) return [];
  return [invalid([...at, 'divisor'], divisor, `must be one of ${allowed.join(', ')} for ${name}`)];
}

/** Whether `unit` is how the API would write `quantity`: `1024Ki` is 1Mi, `1048576` is not. */
function isWrittenAs(quantity: string, unit: string): boolean {
  if (compareQuantities(quantity, unit) !== 0) return false;
  return unit === '1' || systemOf(quantity) === systemOf(unit);
}

function systemOf(quantity: string): 'binary' | 'exponent' | 'decimal' {
  if (quantity.endsWith('i')) return 'binary';
  return /[eE][+-]?[0-9]/.test(quantity) ? 'exponent' : 'decimal';
}
