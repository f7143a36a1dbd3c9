import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { cutAgainAndAgain } from '../../power-cut/cuts.ts';
import { Random } from '../../soak/random.ts';
import { scaled } from '../../support/scale.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const CUTS = scaled({ small: 2, whole: 25 });

test(
  'the power is cut while pods and images come and go: what was acknowledged is true after the boot, and pods go on',
  { skip },
  async (t) => {
    const seed = randomInt(1, 1_000_000);
    t.diagnostic(`seed ${String(seed)}`);
    const dir = await mkdtemp(join(tmpdir(), 'g-cut-'));
    const instance = `t${dir.slice(-6).toLowerCase()}`;
    const looks: string[] = [];
    try {
      const violations = await cutAgainAndAgain({
        dir,
        instance,
        cuts: CUTS,
        random: new Random(seed),
        progress: (line) => looks.push(line),
      });
      assert.deepEqual(violations, [], looks.join('\n'));
      assert.equal(looks.filter((line) => / ok after /.test(line)).length, CUTS + 1);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
);
