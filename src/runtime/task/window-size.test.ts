import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { FakeClock } from '../../lib/fake-clock.ts';
import { TerminalSizes } from '../streaming/remote-command/terminal-sizes.ts';
import { followSizes } from './window-size.ts';

const LOOK_MS = 5;

/** The monitor's end of its pipe. */
function monitor(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-sizes-'));
  const path = join(folder, 'winsz');
  execFileSync('mkfifo', [path]);
  let fd: number | undefined = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const leave = (): void => {
    if (fd !== undefined) closeSync(fd);
    fd = undefined;
  };
  t.after(() => {
    leave();
    rmSync(folder, { recursive: true });
  });
  const read = (): string => {
    const buffer = Buffer.alloc(1_000);
    try {
      return buffer.toString('latin1', 0, readSync(fd ?? -1, buffer));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return '';
      throw error;
    }
  };
  return { path, read, leave };
}

function follow(path: string) {
  const clock = new FakeClock();
  const sizes = new TerminalSizes();
  const cut = new AbortController();
  const followed = followSizes({ clock, signal: cut.signal }, path, sizes);
  const set = (width: number, height: number): void => sizes.receive(Buffer.from(JSON.stringify({ width, height })));
  return { clock, sizes, followed, set, cut };
}

/** Work of the kernel's is done in the pool; what is awaited there has its turn. */
async function turns(clock: FakeClock, count = 20): Promise<void> {
  for (let i = 0; i < count; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await clock.advance(LOOK_MS);
  }
}

test('a size is a line of rows and columns', async (t) => {
  const { path, read } = monitor(t);
  const { sizes, followed, set } = follow(path);
  set(80, 24);
  sizes.end();
  await followed;
  assert.equal(read(), '24 80\n');
});

test('there is never more than one line in the pipe; what is overtaken is left out', async (t) => {
  const { path, read } = monitor(t);
  const { clock, sizes, followed, set } = follow(path);
  set(1, 1);
  await turns(clock);
  for (const width of [2, 3, 4]) {
    set(width, width);
    await turns(clock);
  }
  assert.equal(read(), '1 1\n');
  await turns(clock);
  assert.equal(read(), '4 4\n');
  sizes.end();
  await followed;
});

test('the last size is set, whenever it comes', async (t) => {
  const { path, read } = monitor(t);
  for (let width = 1; width <= 20; width++) {
    const { clock, sizes, followed, set } = follow(path);
    let got = '';
    set(width, 1);
    while (got === '') {
      await new Promise((resolve) => setImmediate(resolve));
      got = read();
    }
    // As soon as the first one has been read: the work on that is not quite over.
    set(width, 2);
    sizes.end();
    let over = false;
    void followed.then(() => (over = true));
    while (!over) await turns(clock, 1);
    assert.equal(got + read(), `1 ${String(width)}\n2 ${String(width)}\n`);
  }
});

test('a monitor that is gone is no failure', async (t) => {
  const { path, leave } = monitor(t);
  leave();
  for (const place of [path, `${path}-not-there`]) {
    const { sizes, followed, set } = follow(place);
    set(80, 24);
    sizes.end();
    await followed;
  }
});

test('where the monitor does not read, the end of the session ends the wait', async (t) => {
  const { path, read } = monitor(t);
  const { clock, sizes, followed, set, cut } = follow(path);
  set(1, 1);
  await turns(clock);
  set(2, 2);
  await turns(clock);
  sizes.end();
  cut.abort(new Error('the client is gone'));
  await followed;
  assert.equal(read(), '1 1\n');
});
