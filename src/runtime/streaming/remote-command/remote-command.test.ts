import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { notFound } from '../../../lib/errors.ts';
import type { TerminalSize } from '../streams.ts';
import { outcomeAsStatus, outcomeAsText } from './outcome.ts';
import { TerminalSizes } from './terminal-sizes.ts';

describe('the outcome', () => {
  test('of success', () => {
    const outcome = { kind: 'exited', exitCode: 0 } as const;
    assert.deepEqual(JSON.parse(outcomeAsStatus(outcome)), { metadata: {}, status: 'Success' });
    assert.equal(outcomeAsText(outcome), '');
  });

  test('of an exit code is where kubectl looks for it', () => {
    const outcome = { kind: 'exited', exitCode: 137 } as const;
    const { status, reason, details } = JSON.parse(outcomeAsStatus(outcome)) as Record<string, unknown>;
    assert.equal(status, 'Failure');
    assert.equal(reason, 'NonZeroExitCode');
    assert.deepEqual(details, { causes: [{ reason: 'ExitCode', message: '137' }] });
    assert.equal(outcomeAsText(outcome), 'command terminated with non-zero exit code: exit status 137');
  });

  test('of an exit code that clients cannot read is a failure', () => {
    for (const exitCode of [-1, 256]) {
      const status = JSON.parse(outcomeAsStatus({ kind: 'exited', exitCode })) as Record<string, unknown>;
      assert.equal(status['reason'], 'InternalError');
      assert.match(String(status['message']), new RegExp(`exit status ${exitCode}`));
    }
  });

  test('of an error has its words, and its kind where Kubernetes has one', () => {
    const status = JSON.parse(outcomeAsStatus({ kind: 'failed', error: notFound('no sh in it') })) as Record<
      string,
      unknown
    >;
    assert.deepEqual(
      [status['status'], status['reason'], status['code'], status['message']],
      ['Failure', 'NotFound', 404, 'no sh in it'],
    );
    const other = JSON.parse(outcomeAsStatus({ kind: 'failed', error: new Error('odd') })) as Record<string, unknown>;
    assert.deepEqual([other['reason'], other['code'], other['message']], ['InternalError', 500, 'odd']);
  });
});

describe('terminal sizes', () => {
  async function taken(feed: (sizes: TerminalSizes) => void): Promise<TerminalSize[]> {
    const sizes = new TerminalSizes();
    feed(sizes);
    sizes.end();
    return await Array.fromAsync(sizes);
  }
  const feed =
    (...texts: string[]) =>
    (sizes: TerminalSizes): void =>
      texts.forEach((text) => sizes.receive(Buffer.from(text)));

  test('in pieces', async () => {
    assert.deepEqual(await taken(feed('{"Wid', 'th":80,"Height"', ':24}\n')), [{ width: 80, height: 24 }]);
  });

  test('the newest only', async () => {
    assert.deepEqual(await taken(feed('{"Width":1,"Height":2}\n{"Width":3,"Height":4}\n{"Wi')), [
      { width: 3, height: 4 },
    ]);
  });

  test('one after the other where somebody reads', async () => {
    const sizes = new TerminalSizes();
    const iterator = sizes[Symbol.asyncIterator]();
    for (const width of [10, 20]) {
      const next = iterator.next();
      sizes.receive(Buffer.from(`{"width":${width},"height":5}`));
      assert.deepEqual((await next).value, { width, height: 5 });
    }
    const last = iterator.next();
    sizes.end();
    assert.equal((await last).done, true);
  });

  test('what is none is left out', async () => {
    for (const text of [
      '}}}}',
      '{"Width":0,"Height":1}',
      '{"Width":70000,"Height":1}',
      '{"Width":"8","Height":1}',
      '{}',
      'null}',
      '[1]}',
    ]) {
      assert.deepEqual(await taken(feed(text)), [], text);
    }
    assert.deepEqual(await taken(feed('x'.repeat(5_000), '}', '{"Width":8,"Height":9}')), [{ width: 8, height: 9 }]);
  });
});
