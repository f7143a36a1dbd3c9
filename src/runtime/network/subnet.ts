/** An IPv4 network, its address as a number. */
export interface Subnet {
  readonly address: number;
  readonly prefix: number;
}

export function parseSubnet(text: string): Subnet | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(text);
  if (match === null) return undefined;
  const [a, b, c, d, prefix] = match.slice(1).map(Number) as [number, number, number, number, number];
  if (Math.max(a, b, c, d) > 255 || prefix > 32) return undefined;
  return { address: masked(((a << 24) | (b << 16) | (c << 8) | d) >>> 0, prefix), prefix };
}

export function formatSubnet({ address, prefix }: Subnet): string {
  const parts = [address >>> 24, (address >>> 16) & 255, (address >>> 8) & 255, address & 255];
  return `${parts.join('.')}/${String(prefix)}`;
}

function masked(address: number, prefix: number): number {
  return prefix === 0 ? 0 : (address & (0xffffffff << (32 - prefix))) >>> 0;
}

export function overlaps(a: Subnet, b: Subnet): boolean {
  const prefix = Math.min(a.prefix, b.prefix);
  return masked(a.address, prefix) === masked(b.address, prefix);
}

/**
 * The networks that this host knows a way to, from /proc/net/fib_trie: all routing tables, so also those of VPNs. The
 * default route is left out, it is a way to everywhere.
 */
export function parseFibTrie(text: string): Subnet[] {
  const found = new Map<string, Subnet>();
  let address: string | undefined;
  for (const line of text.split('\n')) {
    const leaf = /\|-- (\d+\.\d+\.\d+\.\d+)$/.exec(line);
    if (leaf !== null) address = leaf[1];
    const route = /^\s+\/(\d+) (?:host|link|universe|site|nowhere)\b/.exec(line);
    if (route === null || address === undefined) continue;
    const subnet = parseSubnet(`${address}/${route[1] ?? ''}`);
    if (subnet !== undefined && subnet.prefix > 0) found.set(formatSubnet(subnet), subnet);
  }
  return [...found.values()];
}

/** Ten-something networks that other software takes by default are not among the candidates. */
const TENS = { first: 160, count: 80 };
const ONE_SEVENTY_TWOS = { first: 16, count: 16 };
const SHARED_SPACE = { first: 64, count: 64 };

function candidates(): Subnet[] {
  const blocks = (start: number, { first, count }: { first: number; count: number }): Subnet[] =>
    Array.from({ length: count }, (_unused, index) => ({
      address: ((start << 24) | ((first + index) << 16)) >>> 0,
      prefix: 16,
    }));
  return [...blocks(10, TENS), ...blocks(172, ONE_SEVENTY_TWOS), ...blocks(100, SHARED_SPACE)];
}

/**
 * A /16 that overlaps nothing in `taken`. `seed` says where among the first candidates to begin, so that two
 * instances on one host begin at different ones. Undefined when all are taken.
 */
export function chooseSubnet(taken: readonly Subnet[], seed: number): Subnet | undefined {
  const all = candidates();
  const start = seed % TENS.count;
  const order = [...all.slice(start, TENS.count), ...all.slice(0, start), ...all.slice(TENS.count)];
  return order.find((candidate) => !taken.some((other) => overlaps(candidate, other)));
}
