import { invalidArgument } from '../../lib/errors.ts';
import {
  JsonPathParser,
  type Operand,
  type Operator,
  type Path,
  type Step,
  type Template,
} from './json-path-parser.ts';

/**
 * JSONPath as kubectl has it, which is no standard's: templates of text and `{…}`, `range` and `end`, dots escaped by a backslash,
 * keys in brackets that may be paths. Nothing of npm's reads it. What is not there is nothing, and no error.
 * Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/
 */

/** What `-o jsonpath=` takes. Throws InvalidArgument. */
export function parseTemplate(text: string): Template {
  const bare = /^[.$@[]/.test(text) && !text.includes('{');
  return new JsonPathParser(bare ? `{${text}}` : text).template();
}

/** One path, braces and first dot left out or not, as `--sort-by` takes it. Throws InvalidArgument. */
export function parsePath(text: string): Path {
  const inner = /^\{(.*)\}$/s.exec(text.trim())?.[1] ?? text.trim();
  const [part, ...more] = new JsonPathParser(`{${/^[.$@[]/.test(inner) ? '' : '.'}${inner}}`).template();
  if (part?.kind === 'path' && more.length === 0 && inner !== '') return part.path;
  throw invalidArgument(`${JSON.stringify(text)} is no path such as .metadata.name`);
}

/** All values of a path, in order. Throws InvalidArgument for an index that is not there, as kubectl does. */
export function findAll(path: Path, root: unknown): unknown[] {
  return follow(path, [root]);
}

/** Step by step over all values, so that a union has all values of its first path first. */
function follow(path: Path, roots: readonly unknown[]): unknown[] {
  return path.reduce<unknown[]>(
    (values, step) =>
      step.kind === 'union'
        ? step.paths.flatMap((each) => follow(each, values))
        : values.flatMap((value) => take(step, value)),
    [...roots],
  );
}

export function renderText(template: Template, root: unknown): string {
  return template
    .map((part) => {
      if (part.kind === 'text') return part.text;
      const values = findAll(part.path, root);
      if (part.kind === 'range') return values.map((value) => renderText(part.body, value)).join('');
      return values.map(textOf).join(' ');
    })
    .join('');
}

/** Each path's values as a JSON list; text is left out. */
export function renderJson(template: Template, root: unknown): string {
  return template
    .map((part) => {
      if (part.kind === 'text') return '';
      const values = findAll(part.path, root);
      if (part.kind === 'range') return values.map((value) => renderJson(part.body, value)).join('');
      return `${JSON.stringify(values, undefined, 4)}\n`;
    })
    .join('');
}

/** A value as it is printed: lists and maps as JSON. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function take(step: Exclude<Step, { kind: 'union' }>, value: unknown): unknown[] {
  switch (step.kind) {
    case 'fields':
      return field(step, value);
    case 'wildcard':
      return children(value);
    case 'descend':
      return descend(value);
    case 'index':
      return elements(value, step.at, step.at === -1 ? undefined : step.at + 1, 1);
    case 'slice':
      return elements(value, step.from ?? 0, step.to, step.step);
    case 'filter':
      return listOf(value).filter((item) => matches(step, item));
  }
}

function field({ names, literal }: Step & { kind: 'fields' }, value: unknown): unknown[] {
  if (literal !== undefined && isMap(value) && Object.hasOwn(value, literal)) return present(value[literal]);
  let at = value;
  for (const name of names) {
    if (!isMap(at) || !Object.hasOwn(at, name)) return [];
    at = at[name];
  }
  return present(at);
}

function present(value: unknown): unknown[] {
  return value === undefined || value === null ? [] : [value];
}

function children(value: unknown): unknown[] {
  if (Array.isArray(value)) return value as unknown[];
  return isMap(value) ? Object.values(value) : [];
}

/** The value and all that is below it which has something below it. */
function descend(value: unknown): unknown[] {
  const below = children(value);
  return below.length === 0 ? [] : [value, ...below.flatMap(descend)];
}

/** Negative numbers count from the end. */
function elements(value: unknown, from: number, to: number | undefined, step: number): unknown[] {
  const list = listOf(value);
  const first = from < 0 ? from + list.length : from;
  const end = to === undefined ? list.length : to < 0 ? to + list.length : to;
  if (first === end) return [];
  for (const index of [first, end - 1]) {
    if (index < 0 || index >= list.length)
      throw invalidArgument(`array index out of bounds: index ${index}, length ${list.length}`);
  }
  return list.slice(first, end).filter((_, index) => index % step === 0);
}

function listOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value as unknown[];
  throw invalidArgument(`${isMap(value) ? 'a map' : `a ${typeof value}`} is not an array`);
}

function matches({ left, compare }: Step & { kind: 'filter' }, item: unknown): boolean {
  const lefts = operand(left, item);
  if (compare === undefined) return lefts.length > 0;
  const rights = operand(compare.right, item);
  if (lefts.length > 1 || rights.length > 1) throw invalidArgument('more than one value on a side of a comparison');
  if (lefts.length === 0 || rights.length === 0) return false;
  return holds(compare.operator, lefts[0], rights[0]);
}

function operand(side: Operand, item: unknown): unknown[] {
  return side.kind === 'literal' ? [side.value] : findAll(side.path, item);
}

function holds(operator: Operator, left: unknown, right: unknown): boolean {
  if (operator === '==') return left === right;
  if (operator === '!=') return left !== right;
  const order = typeof left === 'number' && typeof right === 'number' ? left - right : texts(left, right);
  if (order === undefined)
    throw invalidArgument(`${textOf(left)} and ${textOf(right)} cannot be compared by ${operator}`);
  if (operator === '<') return order < 0;
  if (operator === '<=') return order <= 0;
  return operator === '>' ? order > 0 : order >= 0;
}

function texts(left: unknown, right: unknown): number | undefined {
  if (typeof left !== 'string' || typeof right !== 'string') return undefined;
  return left < right ? -1 : left > right ? 1 : 0;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
