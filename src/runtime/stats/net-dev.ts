/** What went through one network interface since it was made. */
export interface InterfaceCounters {
  readonly name: string;
  readonly received: TrafficCounters;
  readonly sent: TrafficCounters;
}

export interface TrafficCounters {
  readonly bytes: bigint;
  readonly packets: bigint;
  readonly errors: bigint;
  readonly dropped: bigint;
}

/** Where the second half of the columns begins: what was sent. */
const SENT = 8;
const LOOPBACK = 'lo';
/** What CNI calls a pod's first interface. */
const DEFAULT_INTERFACE = 'eth0';

/** The text of /proc/PID/net/dev. The loopback interface is left out, as in the field: it is no traffic of the pod with anybody. */
export function parseNetDev(text: string): InterfaceCounters[] {
  return text.split('\n').flatMap((line) => {
    const colon = line.lastIndexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).trim();
    const columns = line
      .slice(colon + 1)
      .trim()
      .split(/\s+/);
    if (name === '' || name === LOOPBACK || columns.length < 2 * SENT) return [];
    return [{ name, received: traffic(columns, 0), sent: traffic(columns, SENT) }];
  });
}

function traffic(columns: readonly string[], from: number): TrafficCounters {
  const [bytes, packets, errors, dropped] = columns.slice(from, from + 4).map((digits) => BigInt(digits));
  return { bytes: bytes ?? 0n, packets: packets ?? 0n, errors: errors ?? 0n, dropped: dropped ?? 0n };
}

/** The interface that stands for the pod: CNI's first, or else whichever comes first. */
export function defaultInterface(interfaces: readonly InterfaceCounters[]): InterfaceCounters | undefined {
  return interfaces.find(({ name }) => name === DEFAULT_INTERFACE) ?? interfaces[0];
}
