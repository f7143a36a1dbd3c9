import { createHash } from 'node:crypto';
import type { Container } from '../../kube/objects.ts';

/** A short fingerprint of what was asked for: when it changes, the container is replaced. The order of keys does not matter. */
export function containerHash(container: Container): string {
  return createHash('sha256').update(canonical(container)).digest('hex').slice(0, 8);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return value === undefined ? 'null' : JSON.stringify(value);
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`;
}
