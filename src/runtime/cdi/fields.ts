import { invalidArgument } from '../../lib/errors.ts';

type Plain = Readonly<Record<string, unknown>>;

/** The fields of an object that somebody else has written, taken out one by one. Throws InvalidArgument, naming the field. */
export class Fields {
  /** For messages: `devices[0].containerEdits`. */
  readonly path: string;
  readonly #fields: Plain;
  readonly #taken = new Set<string>();

  private constructor(fields: Plain, path: string) {
    this.#fields = fields;
    this.path = path;
  }

  static of(value: unknown, path: string): Fields {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw invalidArgument(`${path === '' ? 'the file' : path}: is no object`);
    }
    return new Fields(value as Plain, path);
  }

  text(name: string): string | undefined {
    return this.#take(name, 'a text', (value) => (typeof value === 'string' ? value : undefined));
  }

  number(name: string): number | undefined {
    return this.#take(name, 'a whole number', (value) => (Number.isSafeInteger(value) ? (value as number) : undefined));
  }

  texts(name: string): readonly string[] {
    const isTexts = (value: unknown): value is string[] =>
      Array.isArray(value) && value.every((one) => typeof one === 'string');
    return this.#take(name, 'a list of texts', (value) => (isTexts(value) ? value : undefined)) ?? [];
  }

  numbers(name: string): readonly number[] {
    const isNumbers = (value: unknown): value is number[] => Array.isArray(value) && value.every(Number.isSafeInteger);
    return this.#take(name, 'a list of whole numbers', (value) => (isNumbers(value) ? value : undefined)) ?? [];
  }

  object(name: string): Fields | undefined {
    return this.#take(name, 'an object', (value) => Fields.of(value, this.#pathOf(name)));
  }

  list(name: string): readonly Fields[] {
    const values = this.#take(name, 'a list', (value) => (Array.isArray(value) ? (value as unknown[]) : undefined));
    return (values ?? []).map((value, i) => Fields.of(value, `${this.#pathOf(name)}[${String(i)}]`));
  }

  /** For what is known and of no use here. */
  skip(name: string): void {
    this.#taken.add(name);
  }

  /** For what is known and cannot be given. */
  refuse(name: string, why: string): void {
    if (this.#take(name, '', (value) => value ?? undefined) !== undefined) {
      throw invalidArgument(`${this.#pathOf(name)}: ${why}`);
    }
  }

  /** Whatever has not been taken is not known. */
  end(): void {
    const unknown = Object.keys(this.#fields).find((name) => !this.#taken.has(name));
    if (unknown !== undefined) throw invalidArgument(`${this.#pathOf(unknown)}: no such field is known`);
  }

  #take<T>(name: string, what: string, read: (value: unknown) => T | undefined): T | undefined {
    this.#taken.add(name);
    const value = this.#fields[name];
    if (value === undefined || value === null) return undefined;
    const taken = read(value);
    if (taken === undefined) throw invalidArgument(`${this.#pathOf(name)}: should be ${what}`);
    return taken;
  }

  #pathOf(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`;
  }
}
