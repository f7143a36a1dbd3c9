import { join } from 'node:path';
import { after, before } from 'node:test';
import { LeakCheck } from '../../support/leak-check.ts';
import { SilentFuse } from '../../support/silent-fuse.ts';
import { RuntimeFixture } from '../runtime/runtime-fixture.ts';

/** A runtime, and a share on its machine that does not answer. */
export interface SilentShareBench {
  readonly f: RuntimeFixture;
  readonly leaks: LeakCheck;
  readonly share: SilentFuse;
}

/** For all tests of a file; what it returns gives the bench to a test that runs. */
export function silentShareBench(skip: string | false): () => SilentShareBench {
  const open = new AsyncDisposableStack();
  let bench: SilentShareBench | undefined;
  before(async () => {
    if (skip !== false) return;
    const f = open.use(await RuntimeFixture.make());
    const leaks = await LeakCheck.begin(f.root.leakRoots());
    // Made last, ended first: what waits for it could not be ended else.
    const share = open.use(await SilentFuse.mount(join(f.root.dir, 'share')));
    bench = { f, leaks, share };
  });
  after(() => open.disposeAsync());
  return () => {
    if (bench === undefined) throw new Error('there is no bench before the tests have begun');
    return bench;
  };
}
