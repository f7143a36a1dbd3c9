import { isDeepStrictEqual } from 'node:util';
import { apiError } from '../status-error.ts';
import { isRecord, setOwn } from '../validate/check-shape.ts';

/** More operations than any client needs; each may copy a part of the object. */
const MAX_OPERATIONS = 10_000;

/**
 * RFC 6902, all operations or none.
 *
 * @throws BadRequest for a malformed patch, Invalid (422) for one that does not fit the object
 */
export function jsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch)) throw apiError('BadRequest', 'a JSON patch is a list of operations');
  if (patch.length > MAX_OPERATIONS) {
    throw apiError(
      'RequestEntityTooLarge',
      `a JSON patch may have ${MAX_OPERATIONS} operations, this one has ${patch.length}`,
    );
  }
  const holder = { root: structuredClone(target) };
  for (const [index, operation] of patch.entries()) apply(holder, operation, index);
  return holder.root;
}

interface Holder {
  root: unknown;
}

function apply(holder: Holder, operation: unknown, index: number): void {
  if (!isRecord(operation)) throw apiError('BadRequest', `operation ${index} of the patch is not a map`);
  const { op, path, from, value } = operation;
  const at = pointer(path, index);
  switch (op) {
    case 'add':
      add(holder, at, structuredClone(needed(operation, index)));
      break;
    case 'remove':
      remove(holder, at);
      break;
    case 'replace':
      read(holder, at);
      if (at.length === 0) holder.root = structuredClone(needed(operation, index));
      else {
        remove(holder, at);
        add(holder, at, structuredClone(needed(operation, index)));
      }
      break;
    case 'move': {
      const source = pointer(from, index);
      const moved = read(holder, source);
      if (source.length < at.length && source.every((part, i) => part === at[i])) {
        throw apiError('BadRequest', `operation ${index} of the patch moves a value into itself`);
      }
      remove(holder, source);
      add(holder, at, moved);
      break;
    }
    case 'copy':
      add(holder, at, structuredClone(read(holder, pointer(from, index))));
      break;
    case 'test':
      if (!isDeepStrictEqual(read(holder, at), value)) {
        throw apiError('Invalid', `the patch's test of ${String(path)} failed`);
      }
      break;
    default:
      throw apiError('BadRequest', `operation ${index} of the patch: unknown op ${JSON.stringify(op)}`);
  }
}

function needed(operation: Record<string, unknown>, index: number): unknown {
  if (!('value' in operation)) throw apiError('BadRequest', `operation ${index} of the patch has no value`);
  return operation['value'];
}

function pointer(path: unknown, index: number): string[] {
  if (typeof path !== 'string' || (path !== '' && !path.startsWith('/'))) {
    throw apiError('BadRequest', `operation ${index} of the patch: ${JSON.stringify(path)} is not a JSON pointer`);
  }
  return path === ''
    ? []
    : path
        .slice(1)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function misfit(at: readonly string[]): Error {
  return apiError('Invalid', `the patch does not fit the object: there is no /${at.join('/')}`);
}

function read(holder: Holder, at: readonly string[]): unknown {
  let value = holder.root;
  for (const part of at) {
    if (Array.isArray(value)) value = (value as unknown[])[indexIn(value, part, at, false)];
    else if (isRecord(value) && Object.hasOwn(value, part)) value = value[part];
    else throw misfit(at);
  }
  return value;
}

function add(holder: Holder, at: readonly string[], value: unknown): void {
  const last = at.at(-1);
  if (last === undefined) {
    holder.root = value;
    return;
  }
  const parent = read(holder, at.slice(0, -1));
  if (Array.isArray(parent)) parent.splice(indexIn(parent, last, at, true), 0, value);
  else if (isRecord(parent)) setOwn(parent, last, value);
  else throw misfit(at);
}

function remove(holder: Holder, at: readonly string[]): void {
  const last = at.at(-1);
  if (last === undefined) throw apiError('Invalid', 'the patch would remove the whole object');
  const parent = read(holder, at.slice(0, -1));
  if (Array.isArray(parent)) parent.splice(indexIn(parent, last, at, false), 1);
  else if (isRecord(parent) && Object.hasOwn(parent, last)) Reflect.deleteProperty(parent, last);
  else throw misfit(at);
}

function indexIn(list: readonly unknown[], part: string, at: readonly string[], forAdd: boolean): number {
  if (forAdd && part === '-') return list.length;
  const index = /^(0|[1-9][0-9]{0,9})$/.test(part) ? Number(part) : Number.NaN;
  if (!(index < list.length || (forAdd && index === list.length))) throw misfit(at);
  return index;
}
