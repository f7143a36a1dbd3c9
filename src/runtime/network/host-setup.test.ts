import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Op } from '../../lib/abort.ts';
import { FakeClock } from '../../lib/fake-clock.ts';
import type { Ledger } from '../../lib/ledger.ts';
import { silentLog } from '../../lib/log.ts';
import { HostSetup } from './host-setup.ts';
import { Iptables } from './iptables.ts';

const op: Op = { signal: new AbortController().signal, log: silentLog };

/** Hangs, as a program does that waits for a lock, until its op ends it; from the second call on it answers. */
class SlowIptables extends Iptables {
  calls = 0;

  override async list({ signal }: Op): Promise<string[]> {
    if (++this.calls > 1) return ['-N CNI-HOSTPORT-DNAT'];
    await new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
    return [];
  }
}

function bench(): { clock: FakeClock; iptables: SlowIptables; host: HostSetup } {
  const clock = new FakeClock();
  const iptables = new SlowIptables();
  const host = new HostSetup({
    clock,
    log: silentLog,
    ledger: {} as unknown as Ledger,
    instance: 'test0000',
    iptables,
  });
  return { clock, iptables, host };
}

test('an iptables that hangs holds the other pods up for the time of one step, however patient its caller is', async () => {
  const { clock, host } = bench();
  const first = host.expectPortmapChains(op);
  const second = host.expectPortmapChains(op);
  const refused = assert.rejects(first, { kind: 'DeadlineExceeded' });
  await clock.advance(60_000);
  await refused;
  await second;
});

test('it ends with its caller, too, and a caller that only waits for its turn leaves at once', async () => {
  const { host, iptables } = bench();
  const [caller, waiting] = [new AbortController(), new AbortController()];
  const first = host.expectPortmapChains({ ...op, signal: caller.signal });
  const second = host.expectPortmapChains({ ...op, signal: waiting.signal });
  waiting.abort(new Error('gone'));
  await assert.rejects(second, /gone/);
  caller.abort(new Error('enough'));
  await assert.rejects(first, /enough/);
  await host.expectPortmapChains(op);
  assert.equal(iptables.calls, 2, 'who has left asks for nothing');
});
