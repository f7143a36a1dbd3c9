import { randomBytes } from 'node:crypto';
import { busyboxRootfs } from '../support/busybox.ts';
import { imageOf, layerOf, layerOfTar } from '../support/images.ts';
import { TestRegistry } from '../support/registry.ts';
import { tarOf } from '../support/tar.ts';
import { TERM_PATH, termProgram } from './term-program.ts';
import type { BenchImage } from './workload.ts';

const SMALL_LAYER_BYTES = 200_000;
const SHELL = ['/bin/sh', '-c', 'trap "exit 0" TERM; while :; do sleep 1 & wait $!; done'];

/** The benchmark's images, served by this process on loopback to both sides. */
export class BenchRegistry implements AsyncDisposable {
  readonly #registry: TestRegistry;
  readonly image: BenchImage;
  #small = 0;

  private constructor(registry: TestRegistry, command: readonly string[]) {
    this.#registry = registry;
    this.image = { name: `${registry.host}/bench:1`, command };
  }

  static async start(): Promise<BenchRegistry> {
    const registry = await TestRegistry.start();
    const program = termProgram(process.arch);
    const members = await busyboxRootfs();
    if (program !== undefined) members.push({ name: TERM_PATH.slice(1), content: program, mode: 0o755 });
    const command = program === undefined ? SHELL : [TERM_PATH];
    registry.push('bench', imageOf([layerOfTar(await tarOf(members))], { config: { Cmd: command } }), '1');
    return new BenchRegistry(registry, command);
  }

  get host(): string {
    return this.#registry.host;
  }

  /** The name of an image of one small layer that nobody has pulled yet. */
  async smallImage(): Promise<string> {
    const name = `small-${String(this.#small++)}`;
    const layer = await layerOf(randomBytes(SMALL_LAYER_BYTES));
    this.#registry.push(name, imageOf([layer]), '1');
    return `${this.host}/${name}:1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#registry[Symbol.asyncDispose]();
  }
}
