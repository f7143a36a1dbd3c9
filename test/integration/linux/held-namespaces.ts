import { keepAlive } from '../../../src/lib/keep-alive.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { UserNamespaceHolder } from '../../../src/linux/user-namespace.ts';

/** Has namespaces of a pod with users of its own held, says by whom, and waits to be killed. */
keepAlive();
const ids = [{ containerId: 0, hostId: 200_000, length: 65_536 }];
const op = { signal: new AbortController().signal, log: silentLog };
const holder = await UserNamespaceHolder.make(op, { clock: systemClock }, { uids: ids, gids: ids }, ['net']);
process.stdout.write(`${String(holder.pid)}\n`);
