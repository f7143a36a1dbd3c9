import { open, readFile } from 'node:fs/promises';

/** What was acknowledged to a client, and so has to be true after a power cut, too. */
export type Acknowledged =
  /** When the machine came up, in milliseconds since the epoch. */
  | { readonly kind: 'boot'; readonly atMs: number }
  /** A pod that ends by itself with `code`, or is ended. */
  | { readonly kind: 'created'; readonly pod: string; readonly uid: string; readonly code: number }
  /** Its end was seen in its status. */
  | { readonly kind: 'ended'; readonly pod: string; readonly uid: string; readonly code: number }
  | { readonly kind: 'deleting'; readonly pod: string; readonly uid: string }
  | { readonly kind: 'gone'; readonly pod: string; readonly uid: string }
  /** So many lines of the steady pod's volume were forced onto the disk. */
  | { readonly kind: 'ticks'; readonly count: number }
  | { readonly kind: 'image'; readonly name: string }
  /** From now on it may or may not be there. */
  | { readonly kind: 'image-removing'; readonly name: string };

/** A file of lines; each is on the disk before the next thing is done. */
export class Record {
  readonly #path: string;
  #last: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  add(acknowledged: Acknowledged): Promise<void> {
    this.#last = this.#last.then(async () => {
      const file = await open(this.#path, 'a');
      try {
        await file.write(`${JSON.stringify(acknowledged)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
    });
    return this.#last;
  }

  /** A last line that the cut tore was not acknowledged to anybody. */
  async read(): Promise<Acknowledged[]> {
    const text = await readFile(this.#path, 'utf8').catch(() => '');
    return text
      .split('\n')
      .slice(0, -1)
      .flatMap((line) => {
        try {
          return [JSON.parse(line) as Acknowledged];
        } catch {
          return [];
        }
      });
  }
}
