import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { test } from 'node:test';
import { needsRoot, TaskFixture } from './task-fixture.ts';

test(
  'a log that cannot be opened: the create says how the monitor ended, and in its words why',
  needsRoot,
  async () => {
    await using fixture = await TaskFixture.make();
    const request = await fixture.request({ argv: ['true'] });
    await mkdir(fixture.logOf(request.id));
    // Its end comes before or after it was moved to its cgroup: both must say the same.
    for (let round = 0; round < 5; round++) {
      await assert.rejects(
        fixture.createRequest(request),
        /^GantryError: its monitor conmon ended with code 1: Failed to open log file Is a directory \(log \S+\/logs\/[0-9a-f]{64}\.log\)$/,
      );
    }
  },
);
