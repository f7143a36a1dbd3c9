import { isDeepStrictEqual } from 'node:util';
import { isQuantity } from '../quantity.ts';
import {
  duplicate,
  forbidden,
  invalid,
  notSupported,
  required,
  type FieldPath,
  type FieldWarning,
  type Issue,
} from './issue.ts';
import { closest } from './suggest.ts';
import type { Field, Fields, Shape } from './schema.ts';

export type UnknownFields = 'error' | 'warn' | 'drop';

export interface ShapeOutcome {
  /** A copy without nulls (absent, by Kubernetes' rules) and, if they were let pass, without unknown fields. */
  readonly value: unknown;
  readonly issues: Issue[];
  readonly warnings: FieldWarning[];
}

/** Checks a value against its shape, field by field. Pure; never throws. */
export function checkShape(value: unknown, shape: Shape, path: FieldPath, unknownFields: UnknownFields): ShapeOutcome {
  const walk = new Walk(unknownFields);
  const copy = walk.value(value, shape, path, 0);
  return { value: copy, issues: walk.issues, warnings: walk.warnings };
}

/** Deeper than any Kubernetes object; a nesting bomb stops here. */
const MAX_DEPTH = 40;

class Walk {
  readonly issues: Issue[] = [];
  readonly warnings: FieldWarning[] = [];
  readonly #unknownFields: UnknownFields;

  constructor(unknownFields: UnknownFields) {
    this.#unknownFields = unknownFields;
  }

  value(value: unknown, shape: Shape, path: FieldPath, depth: number): unknown {
    if (depth > MAX_DEPTH) {
      this.issues.push(invalid(path, '…', `nested more than ${MAX_DEPTH} levels deep`));
      return undefined;
    }
    switch (shape.kind) {
      case 'any':
        return value;
      case 'string':
        return this.#string(value, shape, path);
      case 'integer':
        return this.#integer(value, shape, path);
      case 'boolean':
        return typeof value === 'boolean' ? value : this.#wrongType(value, 'a boolean (true or false)', path);
      case 'quantity':
        return this.#quantity(value, path);
      case 'map':
        return this.#map(value, shape, path, depth);
      case 'list':
        return this.#list(value, shape, path, depth);
      case 'object':
        return this.#object(value, shape.fields, path, depth);
    }
  }

  #string(value: unknown, shape: Shape & { kind: 'string' }, path: FieldPath): unknown {
    if (typeof value !== 'string') return this.#wrongType(value, 'a string', path);
    if (shape.oneOf !== undefined && !shape.oneOf.includes(value)) {
      this.issues.push(notSupported(path, value, shape.oneOf));
    }
    const why = shape.check?.(value);
    if (why !== undefined) this.issues.push(invalid(path, value, why));
    return value;
  }

  #integer(value: unknown, { min, max }: Shape & { kind: 'integer' }, path: FieldPath): unknown {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) return this.#wrongType(value, 'an integer', path);
    if (min !== undefined && max !== undefined && (value < min || value > max)) {
      this.issues.push(invalid(path, value, `must be between ${min} and ${max}, inclusive`));
    } else if (min !== undefined && value < min) {
      this.issues.push(invalid(path, value, `must be greater than or equal to ${min}`));
    }
    return value;
  }

  #quantity(value: unknown, path: FieldPath): unknown {
    // The API takes plain numbers too (`cpu: 2`) and keeps them as text.
    const text = typeof value === 'number' && Number.isFinite(value) ? String(value) : value;
    if (typeof text !== 'string') return this.#wrongType(value, 'a quantity such as 500m or 64Mi', path);
    if (!isQuantity(text)) this.issues.push(invalid(path, value, 'must be a quantity such as 500m, 1.5 or 64Mi'));
    return text;
  }

  #map(value: unknown, shape: Shape & { kind: 'map' }, path: FieldPath, depth: number): unknown {
    if (!isRecord(value)) return this.#wrongType(value, 'a map', path);
    const copy: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(value)) {
      const why = shape.key?.(key);
      if (why !== undefined) this.issues.push(invalid([...path, key], key, why));
      // Kubernetes reads `key: null` in a map of strings as an empty string.
      const entry = item === null && shape.value.kind === 'string' ? '' : item;
      setOwn(copy, key, this.value(entry, shape.value, [...path, key], depth + 1));
    }
    return copy;
  }

  #list(value: unknown, shape: Shape & { kind: 'list' }, path: FieldPath, depth: number): unknown {
    if (!Array.isArray(value)) return this.#wrongType(value, 'a list', path);
    const copy = value.map((item: unknown, index) => this.value(item, shape.item, [...path, index], depth + 1));
    const { unique } = shape;
    if (unique === undefined) return copy;
    const seen = new Set<unknown>();
    for (const [index, item] of copy.entries()) {
      const key = unique === '' ? item : isRecord(item) ? item[unique] : undefined;
      if (key === undefined || key === '') continue;
      if (seen.has(key)) this.issues.push(duplicate(unique === '' ? [...path, index] : [...path, index, unique], key));
      seen.add(key);
    }
    return copy;
  }

  #object(value: unknown, fields: Fields, path: FieldPath, depth: number): unknown {
    if (!isRecord(value)) return this.#wrongType(value, 'a map of fields', path);
    const copy: Record<string, unknown> = {};
    for (const [name, raw] of Object.entries(value)) {
      const at = [...path, name];
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
      if (field === undefined) this.#unknown(name, Object.keys(fields), at);
      else if (raw !== null && this.#acts(field, raw, at)) copy[name] = this.value(raw, field.shape, at, depth + 1);
    }
    for (const [name, field] of Object.entries(fields)) {
      if (field.required === true && (copy[name] === undefined || copy[name] === '')) {
        // A field of the wrong type is there, and has been complained about already.
        if (!Object.hasOwn(value, name) || value[name] === null || value[name] === '') {
          this.issues.push(required([...path, name]));
        }
      }
    }
    return copy;
  }

  /** False if the field was refused. */
  #acts({ unsupported }: Field, raw: unknown, path: FieldPath): boolean {
    if (unsupported === undefined || (unsupported.evenIfEmpty !== true && meansNothing(raw))) return true;
    if (unsupported.unless.some((value) => isDeepStrictEqual(value, raw))) return true;
    if (unsupported.how === 'refuse') {
      this.issues.push(forbidden(path, `not supported by Gantry: ${unsupported.why}`));
      return false;
    }
    this.warnings.push({ path, message: `ignored by Gantry: ${unsupported.why}` });
    return true;
  }

  #unknown(name: string, known: readonly string[], path: FieldPath): void {
    const guess = closest(name, known);
    const message = `unknown field ${JSON.stringify(name)}${guess === undefined ? '' : ` (did you mean ${JSON.stringify(guess)}?)`}`;
    if (this.#unknownFields === 'error') this.issues.push({ path, reason: 'FieldUnknown', message });
    else if (this.#unknownFields === 'warn') this.warnings.push({ path, message });
  }

  #wrongType(value: unknown, expected: string, path: FieldPath): unknown {
    const issue = invalid(path, value, `expected ${expected}, got ${typeName(value)}`);
    this.issues.push({ ...issue, reason: 'FieldValueTypeInvalid' });
    return undefined;
  }
}

/** What Kubernetes' `omitempty` leaves out. */
function meansNothing(value: unknown): boolean {
  if (value === '' || value === false || value === 0) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.keys(value).length === 0;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Sets a key as data even when it is `__proto__`. */
export function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

function typeName(value: unknown): string {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  switch (typeof value) {
    case 'string':
      return 'a string';
    case 'number':
      return 'a number';
    case 'boolean':
      return 'a boolean';
    default:
      return 'a map';
  }
}
