import type { Task } from './task.ts';

/** A task as its record has it, for tests that never touch its processes. */
export const FAKE_TASK: Task = {
  id: 'c',
  pid: 100,
  startTimeTicks: 5,
  conmonPid: 99,
  conmonStartTimeTicks: 4,
  bundleDir: '/b',
  cgroupPath: '/g',
  terminal: false,
  runtime: { name: 'crun', path: '/usr/bin/crun', root: '/r' },
};
