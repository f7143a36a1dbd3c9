import { invalidArgument } from '../../lib/errors.ts';

export type Step =
  /** `literal`: the key as it was written in brackets, if its dots were not escaped. */
  | { readonly kind: 'fields'; readonly names: readonly string[]; readonly literal?: string }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'descend' }
  | { readonly kind: 'index'; readonly at: number }
  | { readonly kind: 'slice'; readonly from?: number; readonly to?: number; readonly step: number }
  | { readonly kind: 'union'; readonly paths: readonly Path[] }
  | { readonly kind: 'filter'; readonly left: Operand; readonly compare?: Comparison };

export type Path = readonly Step[];
export type Operand =
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'literal'; readonly value: string | number | boolean };

export interface Comparison {
  readonly operator: Operator;
  readonly right: Operand;
}
export const OPERATORS = ['==', '!=', '<', '<=', '>', '>='] as const;
export type Operator = (typeof OPERATORS)[number];

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'range'; readonly path: Path; readonly body: Template };

export type Template = readonly Part[];

const FIELD_ENDS = ' \t\n.,[]$@{}';
/** Where a field ends inside a filter as well. */
const FILTER_ENDS = `${FIELD_ENDS}=!<>~()`;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };

/** Reads one template from its beginning to its end. */
export class JsonPathParser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Throws InvalidArgument. */
  template(): Part[] {
    const parts = this.#parts(false);
    if (this.#at < this.#text.length) throw this.#wrong('"{end}" without "{range …}"');
    return parts;
  }

  /** Up to the end of the text or, within a range, past its `{end}`; a stray one is left standing. */
  #parts(inRange: boolean): Part[] {
    const parts: Part[] = [];
    for (;;) {
      const open = this.#text.indexOf('{', this.#at);
      const text = this.#text.slice(this.#at, open < 0 ? undefined : open);
      if (text !== '') parts.push({ kind: 'text', text });
      if (open < 0) {
        this.#at = this.#text.length;
        if (inRange) throw this.#wrong('"range" without "{end}"');
        return parts;
      }
      this.#at = open;
      if (/^\{\s*end\s*\}/.test(this.#text.slice(open))) {
        if (inRange) this.#at = this.#text.indexOf('}', open) + 1;
        return parts;
      }
      this.#at = open + 1;
      parts.push(...this.#block());
    }
  }

  /** What is between braces, and for a range also all up to its end. */
  #block(): Part[] {
    const parts: Part[] = [];
    this.#blanks();
    const word = /^[A-Za-z_]\w*/.exec(this.#rest())?.[0];
    if (word === 'range') {
      this.#at += word.length;
      this.#blanks();
      const path = this.#path(FIELD_ENDS);
      this.#close();
      return [{ kind: 'range', path, body: this.#parts(true) }];
    }
    if (word !== undefined) throw this.#wrong(`"${word}" is neither a path (.${word}?) nor "range" or "end"`);
    while (this.#peek() !== '}') {
      if (this.#peek() === '') throw this.#wrong('unclosed "{"');
      if (`"'`.includes(this.#peek())) parts.push({ kind: 'text', text: this.#quoted() });
      else parts.push({ kind: 'path', path: this.#path(FIELD_ENDS) });
      this.#blanks();
    }
    this.#close();
    return parts;
  }

  #close(): void {
    this.#blanks();
    if (this.#peek() === '') throw this.#wrong('unclosed "{"');
    this.#expect('}');
  }

  #path(ends: string): Path {
    const steps: Step[] = [];
    const from = this.#at;
    for (;;) {
      const next = this.#peek();
      // Both mean the present object, where every path begins anyway.
      if ((next === '$' || next === '@') && this.#at === from) this.#at += 1;
      else if (next === '[') steps.push(this.#bracket());
      else if (next === '.') steps.push(...this.#dot(ends));
      else break;
    }
    if (this.#at === from) throw this.#wrong(`unexpected ${JSON.stringify(this.#peek())}`);
    return steps;
  }

  /** `.name`, `.*`, `..name`, `.` alone and before a bracket. */
  #dot(ends: string): Step[] {
    this.#expect('.');
    const steps: Step[] = [];
    if (this.#peek() === '.') {
      this.#expect('.');
      steps.push({ kind: 'descend' });
      if (this.#peek() === '.') throw this.#wrong('".." twice');
    }
    let name = '';
    while (this.#peek() !== '' && !ends.includes(this.#peek())) {
      if (this.#peek() === '\\') this.#at += 1;
      name += this.#peek();
      this.#at += 1;
    }
    if (name === '*') steps.push({ kind: 'wildcard' });
    else if (name !== '') steps.push({ kind: 'fields', names: [name] });
    return steps;
  }

  #bracket(): Step {
    this.#expect('[');
    if (this.#rest().startsWith('?(')) return this.#filter();
    const items: Step[] = [];
    do {
      this.#blanks();
      items.push(this.#item());
      this.#blanks();
    } while (this.#skip(','));
    if (this.#peek() !== ']') throw this.#wrong('unclosed "["');
    this.#expect(']');
    const [only] = items;
    return only !== undefined && items.length === 1 ? only : { kind: 'union', paths: items.map((item) => [item]) };
  }

  #item(): Step {
    if (`"'`.includes(this.#peek()) && this.#peek() !== '') {
      const key = this.#quoted(false);
      const names = (key.match(/(?:\\.|[^.\\])+/gs) ?? [key]).map((name) => name.replaceAll(/\\(.)/gs, '$1'));
      return { kind: 'fields', names, literal: key };
    }
    const text = /^[^\],}]*/.exec(this.#rest())?.[0] ?? '';
    this.#at += text.length;
    if (text.trim() === '*') return { kind: 'wildcard' };
    const numbers = /^(-?\d*)(?:(:)(-?\d*))?(?::(-?\d*))?$/.exec(text.trim());
    if (numbers === null || this.#peek() === '') {
      if (this.#peek() !== ']' && this.#peek() !== ',') throw this.#wrong('unclosed "["');
      throw this.#wrong(`"${text}" is no index`);
    }
    const [, from = '', colon, to = '', step = ''] = numbers;
    if (colon === undefined) return { kind: 'index', at: Number(from) };
    if (step !== '' && !(Number(step) >= 1)) throw this.#wrong('the step must be at least 1');
    return {
      kind: 'slice',
      step: step === '' ? 1 : Number(step),
      ...(from === '' ? {} : { from: Number(from) }),
      ...(to === '' ? {} : { to: Number(to) }),
    };
  }

  #filter(): Step {
    this.#at += '?('.length;
    const left = this.#operand();
    const operator = /^[=!<>~]+/.exec(this.#rest())?.[0];
    let compare: Comparison | undefined;
    if (operator !== undefined) {
      if (!isOperator(operator)) throw this.#wrong(`"${operator}" is no comparison (${OPERATORS.join(', ')})`);
      this.#at += operator.length;
      compare = { operator, right: this.#operand() };
    }
    this.#expect(')');
    this.#blanks();
    this.#expect(']');
    return { kind: 'filter', left, ...(compare === undefined ? {} : { compare }) };
  }

  #operand(): Operand {
    this.#blanks();
    const operand = this.#literal() ?? { kind: 'path', path: this.#path(FILTER_ENDS) };
    this.#blanks();
    return operand;
  }

  #literal(): Operand | undefined {
    if (this.#peek() === '"' || this.#peek() === "'") return { kind: 'literal', value: this.#quoted() };
    const word = /^(?:[+-]?\d+(?:\.\d+)?|true|false)/.exec(this.#rest())?.[0];
    if (word === undefined) return undefined;
    this.#at += word.length;
    return { kind: 'literal', value: word === 'true' ? true : word === 'false' ? false : Number(word) };
  }

  #quoted(unescape = true): string {
    const mark = this.#peek();
    const start = this.#at;
    let text = '';
    for (this.#at += 1; this.#peek() !== mark; this.#at += 1) {
      if (this.#peek() === '') {
        this.#at = start;
        throw this.#wrong('unclosed quotation mark');
      }
      if (this.#peek() === '\\') {
        this.#at += 1;
        text += unescape ? (ESCAPES[this.#peek()] ?? this.#peek()) : `\\${this.#peek()}`;
      } else text += this.#peek();
    }
    this.#at += 1;
    return text;
  }

  #rest(): string {
    return this.#text.slice(this.#at);
  }

  /** '' at the end. */
  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  #blanks(): void {
    while (/\s/.test(this.#peek())) this.#at += 1;
  }

  #skip(mark: string): boolean {
    if (this.#peek() !== mark) return false;
    this.#at += 1;
    return true;
  }

  #expect(mark: string): void {
    if (!this.#skip(mark)) throw this.#wrong(`expected "${mark}"`);
  }

  #wrong(why: string): Error {
    return invalidArgument(`error parsing jsonpath ${this.#text}: ${why} (at character ${this.#at + 1})`);
  }
}

function isOperator(text: string): text is Operator {
  return OPERATORS.some((operator) => operator === text);
}
