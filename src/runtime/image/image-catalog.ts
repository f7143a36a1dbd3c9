import type { StoredImage } from './image-records.ts';
import { formatReference, parseReference, repositoryOf } from './reference.ts';

export interface ImageNames {
  readonly tags: readonly string[];
  readonly digests: readonly string[];
}

/** What removing by a name comes to. */
export type RemovalPlan =
  | { readonly kind: 'absent' }
  /** The image stays: it has other tags. */
  | { readonly kind: 'untag'; readonly id: string; readonly names: readonly string[] }
  | { readonly kind: 'remove'; readonly id: string; readonly names: readonly string[] };

const SHORTEST_ID_PREFIX = 4;

/** The images and their names in memory: answers without waiting for anything. */
export class ImageCatalog {
  readonly #images = new Map<string, StoredImage>();
  readonly #names: Map<string, string>;
  /** Kept here too: a list of images asks for the names of each. */
  readonly #namesOf = new Map<string, Set<string>>();

  constructor(images: Iterable<StoredImage>, names: ReadonlyMap<string, string>) {
    this.#names = new Map();
    for (const image of images) this.#images.set(image.id, image);
    for (const [name, id] of names) if (this.#images.has(id)) this.#give(name, id);
  }

  images(): Iterable<StoredImage> {
    return this.#images.values();
  }

  get(id: string): StoredImage | undefined {
    return this.#images.get(id);
  }

  namesOf(id: string): ImageNames {
    const all = [...(this.#namesOf.get(id) ?? [])].toSorted();
    return { tags: all.filter((name) => !name.includes('@')), digests: all.filter((name) => name.includes('@')) };
  }

  /** Those of the names that are not the image's. */
  namesLacking(id: string, names: readonly string[]): string[] {
    return names.filter((name) => this.#names.get(name) !== id);
  }

  put(image: StoredImage, names: readonly string[]): void {
    this.#images.set(image.id, image);
    for (const name of names) this.#give(name, image.id);
  }

  remove(id: string): void {
    this.#images.delete(id);
    for (const name of this.#namesOf.get(id) ?? []) this.#names.delete(name);
    this.#namesOf.delete(id);
  }

  removeNames(names: readonly string[]): void {
    for (const name of names) {
      const id = this.#names.get(name);
      if (id !== undefined) this.#namesOf.get(id)?.delete(name);
      this.#names.delete(name);
    }
  }

  #give(name: string, id: string): void {
    const before = this.#names.get(name);
    if (before !== undefined) this.#namesOf.get(before)?.delete(name);
    this.#names.set(name, id);
    let names = this.#namesOf.get(id);
    if (names === undefined) this.#namesOf.set(id, (names = new Set()));
    names.add(name);
  }

  /** By id (with or without `sha256:`), by name, or by the beginning of an id that no other image shares. */
  resolve(refOrId: string): StoredImage | undefined {
    return this.#byId(refOrId) ?? this.#byName(refOrId)?.image ?? this.#byPrefix(refOrId);
  }

  /**
   * By `name` a tag takes that tag away, and the image with its last one, and an id takes the image with all its names. As a
   * `whole` any name takes the image with all its names.
   */
  planRemoval(refOrId: string, what: 'name' | 'whole' = 'name'): RemovalPlan {
    const byName = this.#byId(refOrId) === undefined ? this.#byName(refOrId) : undefined;
    const image = byName?.image ?? this.resolve(refOrId);
    if (image === undefined) return { kind: 'absent' };
    const all = this.namesOf(image.id);
    const everything = [...all.tags, ...all.digests];
    if (byName === undefined || what === 'whole') return { kind: 'remove', id: image.id, names: everything };
    const names = this.#goingWith(byName.name, all);
    // Digests alone keep an image only if it was pulled by one: those of repositories whose tag it lost go with the tag.
    return names.length === everything.length
      ? { kind: 'remove', id: image.id, names }
      : { kind: 'untag', id: image.id, names };
  }

  #goingWith(name: string, all: ImageNames): readonly string[] {
    if (name.includes('@')) return [name];
    const repository = repositoryOf(name);
    if (all.tags.some((tag) => tag !== name && repositoryOf(tag) === repository)) return [name];
    return [name, ...all.digests.filter((digest) => repositoryOf(digest) === repository)];
  }

  #byId(text: string): StoredImage | undefined {
    return this.#images.get(text) ?? this.#images.get(`sha256:${text}`);
  }

  #byName(text: string): { name: string; image: StoredImage } | undefined {
    let name: string;
    try {
      name = formatReference(parseReference(text));
    } catch {
      return undefined;
    }
    const image = this.#images.get(this.#names.get(name) ?? '');
    return image === undefined ? undefined : { name, image };
  }

  #byPrefix(text: string): StoredImage | undefined {
    const hex = text.replace(/^sha256:/, '');
    if (hex.length < SHORTEST_ID_PREFIX || !/^[0-9a-f]+$/.test(hex)) return undefined;
    const found = [...this.#images.values()].filter((image) => image.id.startsWith(`sha256:${hex}`));
    return found.length === 1 ? found[0] : undefined;
  }
}
