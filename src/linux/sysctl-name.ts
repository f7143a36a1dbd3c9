import { invalidArgument } from '../lib/errors.ts';

/** A sysctl that has a value of its own in each namespace of that kind. */
export interface PodSysctl {
  readonly namespace: 'net' | 'ipc';
  /** Below /proc/sys: `net/ipv4/conf/eth0.1/forwarding`. */
  readonly path: string;
}

const NAME = /^[a-zA-Z0-9_*@:-]+(?:[./][a-zA-Z0-9_*@:-]+)+$/;
const OF_IPC = /^(?:kernel\/(?:shmall|shmmax|shmmni|shm_rmid_forced|msgmax|msgmnb|msgmni|sem)|fs\/mqueue\/.+)$/;

/**
 * As sysctl(8) does: whichever separator comes first separates, and the other is part of a name, so that `net.ipv4.conf.eth0/1.x` and
 * `net/ipv4/conf/eth0.1/x` are one. Throws InvalidArgument for what is no name, or is the whole machine's.
 */
export function podSysctl(name: string): PodSysctl {
  if (!NAME.test(name)) throw invalidArgument(`sysctl "${name}" is no name of a sysctl`);
  const slashes = /[./]/.exec(name)?.[0] === '/';
  const path = slashes ? name : name.replace(/[./]/g, (mark) => (mark === '.' ? '/' : '.'));
  if (path.startsWith('net/')) return { namespace: 'net', path };
  if (OF_IPC.test(path)) return { namespace: 'ipc', path };
  throw invalidArgument(`sysctl ${name} is not a pod's own: it would change the whole host`);
}
