import type { ContainerConfig, PodSandboxConfig } from '../../../src/cri/gen/api.ts';
import { LeakCheck } from '../../support/leak-check.ts';
import type { TempRoot } from '../../support/temp-root.ts';
import { container, pod, RuntimeFixture } from './runtime-fixture.ts';

export interface OnePodOptions {
  readonly more?: Parameters<typeof pod>[2];
  /** Does what is to be there before anything is looked at. */
  readonly prepare?: (root: TempRoot) => Promise<unknown>;
}

/** A runtime of a test file's own, with one pod that its containers are made in one after the other. */
export class OnePod implements AsyncDisposable {
  readonly fixture: RuntimeFixture;
  readonly #config: PodSandboxConfig;
  readonly #sandboxId: string;
  readonly #leaks: LeakCheck;
  #made = 0;

  private constructor(fixture: RuntimeFixture, config: PodSandboxConfig, sandboxId: string, leaks: LeakCheck) {
    this.fixture = fixture;
    this.#config = config;
    this.#sandboxId = sandboxId;
    this.#leaks = leaks;
  }

  static async make(name: string, { more, prepare }: OnePodOptions = {}): Promise<OnePod> {
    const fixture = await RuntimeFixture.make();
    await prepare?.(fixture.root);
    const leaks = await LeakCheck.begin(fixture.root.leakRoots());
    const config = pod(fixture.root, name, more);
    return new OnePod(fixture, config, await fixture.runSandbox(config), leaks);
  }

  /** One that sleeps, not started yet. */
  async create(more: object): Promise<string> {
    return await this.fixture.createContainer(this.#sandboxId, this.#config, this.#next(more));
  }

  /** One that sleeps, started. */
  async run(more: object): Promise<string> {
    return await this.fixture.runContainer(this.#sandboxId, this.#config, this.#next(more));
  }

  /** The pod's end: throws when anything is left of it. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.fixture.endPod(this.#sandboxId);
      await this.#leaks.assertNone();
    } finally {
      await this.fixture[Symbol.asyncDispose]();
    }
  }

  #next(more: object): ContainerConfig {
    return container(`c${String(++this.#made)}`, ['sleep', '600'], more);
  }
}
