import type { Op } from '../../lib/abort.ts';
import type { LayerUsage } from './layer-usage.ts';

/** Something on the disk: a layer of an image, or what a container has written. */
export interface KeptTree {
  readonly id: string;
  /** Nothing is written there (any more). */
  readonly still: boolean;
  /** What is thought of it until it was walked for the first time. */
  readonly assumed?: TreeSize;
}

export interface TreeSize {
  readonly bytes: number;
  readonly inodes: number;
}

export interface DiskUseDeps {
  readonly images: { readonly usage: LayerUsage; list(): readonly KeptTree[] };
  readonly containers: { readonly usage: LayerUsage; list(): Promise<readonly KeptTree[]> };
}

/** Every `crictl ps` asks: it must not wait for a walk through a big tree. */
const PATIENCE_MS = 100;

/** What images and containers take on the disk, as far as it is known: never further back than {@link LayerUsage} says. */
export class DiskUse {
  readonly #deps: DiskUseDeps;
  readonly #images: Trees;
  readonly #containers: Trees;

  constructor({ images, containers }: DiskUseDeps) {
    this.#images = new Trees(images.usage);
    this.#containers = new Trees(containers.usage);
    this.#deps = { images, containers };
  }

  async look(op: Op): Promise<{ readonly images: TreeSize; readonly containers: TreeSize }> {
    const { images, containers } = this.#deps;
    const [imageSize, containerSize] = await Promise.all([
      this.#images.total(op, images.list()),
      this.#containers.total(op, await containers.list()),
    ]);
    return { images: imageSize, containers: containerSize };
  }
}

/** Trees of one kind, which come and go. */
class Trees {
  readonly #usage: LayerUsage;
  #known: ReadonlySet<string> = new Set();

  constructor(usage: LayerUsage) {
    this.#usage = usage;
  }

  async total(op: Op, trees: readonly KeptTree[]): Promise<TreeSize> {
    const now = new Set(trees.map(({ id }) => id));
    for (const id of this.#known) if (!now.has(id)) this.#usage.forget(id);
    this.#known = now;
    let [bytes, inodes] = [0, 0];
    for (const size of await Promise.all(trees.map((tree) => this.#sizeOf(op, tree)))) {
      bytes += size?.bytes ?? 0;
      inodes += size?.inodes ?? 0;
    }
    return { bytes, inodes };
  }

  async #sizeOf(op: Op, { id, still, assumed }: KeptTree): Promise<TreeSize | undefined> {
    return (await this.#usage.of(op, id, { still, patienceMs: PATIENCE_MS })) ?? assumed;
  }
}
