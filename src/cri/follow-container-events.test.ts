import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../lib/abort.ts';
import { canceled, dataLoss, notImplemented, unavailable } from '../lib/errors.ts';
import { FakeClock } from '../lib/fake-clock.ts';
import { silentLog } from '../lib/log.ts';
import { followContainerEvents } from './follow-container-events.ts';
import { ContainerEventResponse } from './gen/api.ts';

/** Each stream in turn gives its words, then its error, or waits if it has none. */
interface Stream {
  readonly ids: readonly string[];
  readonly end: Error | 'quiet' | 'open';
}

interface Heard {
  readonly words: string[];
  readonly clock: FakeClock;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  begun(): number;
}

function listen(streams: readonly Stream[]): Heard {
  const clock = new FakeClock();
  const controller = new AbortController();
  const op: Op = { signal: controller.signal, log: silentLog };
  const words: string[] = [];
  let begun = 0;
  async function* tell(stream: Stream | undefined, signal: AbortSignal): AsyncGenerator<ContainerEventResponse> {
    for (const containerId of stream?.ids ?? []) {
      yield await Promise.resolve(ContainerEventResponse.fromPartial({ containerId }));
    }
    if (stream?.end instanceof Error) throw stream.end;
    if (stream?.end === 'quiet') return;
    await new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
  const runtime = {
    getContainerEvents: (streamOp: Op) => {
      words.push('ask');
      return tell(streams[begun++], streamOp.signal);
    },
  };
  const ended = (async () => {
    for await (const news of followContainerEvents(op, runtime, clock)) {
      if (news.kind === 'event') words.push(news.event.containerId);
      else if (news.kind === 'ended') words.push(`ended, again in ${String(news.retryInMs)}`);
      else words.push(news.kind);
    }
  })();
  return { words, clock, controller, ended, begun: () => begun };
}

test('whoever was too slow asks again at once, and is told to list when the new stream has begun', async () => {
  const heard = listen([
    { ids: ['a', 'b'], end: dataLoss('too slow') },
    { ids: ['c'], end: 'open' },
  ]);
  await heard.clock.advance(0);
  assert.deepEqual(heard.words, ['ask', 'a', 'b', 'ask', 'lost', 'c']);
  heard.controller.abort(canceled('enough'));
  await heard.ended;
  assert.equal(heard.clock.pendingTimers, 0);
});

test('a runtime that is away is asked again, more and more seldom, until it is back', async () => {
  const away: Stream = { ids: [], end: unavailable('nobody there') };
  const heard = listen([{ ids: ['a'], end: unavailable('gone') }, away, away, { ids: ['b'], end: 'open' }]);
  await heard.clock.advance(10_000);
  assert.deepEqual(heard.words, [
    'ask',
    'a',
    'ended, again in 1000',
    'ask',
    'lost',
    'ended, again in 1000',
    'ask',
    'lost',
    'ended, again in 2000',
    'ask',
    'lost',
    'b',
  ]);
  heard.controller.abort(canceled('enough'));
  await heard.ended;
});

test('streams that end at once and tell nothing are not asked for in a hurry', async () => {
  const heard = listen(Array.from({ length: 200 }, () => ({ ids: [], end: 'quiet' as const })));
  await heard.clock.advance(300_000);
  assert.ok(heard.begun() < 20, String(heard.begun()));
  const lossy = listen(Array.from({ length: 200 }, () => ({ ids: [], end: dataLoss('x') })));
  await lossy.clock.advance(300_000);
  assert.ok(lossy.begun() < 20, String(lossy.begun()));
  for (const { controller, ended } of [heard, lossy]) {
    controller.abort(canceled('enough'));
    await ended;
  }
});

test('a runtime without events is asked once', async () => {
  const heard = listen([{ ids: [], end: notImplemented('no such method') }]);
  await heard.ended;
  assert.deepEqual(heard.words, ['ask', 'unsupported']);
  const none = followContainerEvents({ signal: new AbortController().signal, log: silentLog }, {}, new FakeClock());
  assert.deepEqual((await none.next()).value, { kind: 'unsupported' });
  assert.equal((await none.next()).done, true);
});
