export type Field = readonly [name: string, value: string];

/** RFC 7541, appendix A, from index 1 on. */
const STATIC: readonly Field[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ...[
    ...['accept-language', 'accept-ranges', 'accept', 'access-control-allow-origin', 'age', 'allow', 'authorization'],
    ...['cache-control', 'content-disposition', 'content-encoding', 'content-language', 'content-length'],
    ...['content-location', 'content-range', 'content-type', 'cookie', 'date', 'etag', 'expect', 'expires', 'from'],
    ...['host', 'if-match', 'if-modified-since', 'if-none-match', 'if-range', 'if-unmodified-since', 'last-modified'],
    ...['link', 'location', 'max-forwards', 'proxy-authenticate', 'proxy-authorization', 'range', 'referer', 'refresh'],
    ...['retry-after', 'server', 'set-cookie', 'strict-transport-security', 'transfer-encoding', 'user-agent', 'vary'],
    ...['via', 'www-authenticate'],
  ].map((name): Field => [name, '']),
];

/** The most that a client may have us keep, as nobody has been told another number. */
export const MOST_TABLE_BYTES = 4096;
const FIELD_OVERHEAD_BYTES = 32;

/** What a field counts for (RFC 7541, 4.1). */
export function sizeOf([name, value]: Field): number {
  return name.length + value.length + FIELD_OVERHEAD_BYTES;
}

/** The fields that a number can stand for: the static ones, then those that this client has sent, the newest first. */
export class HeaderTable {
  readonly #dynamic: Field[] = [];
  #bytes = 0;
  #most = MOST_TABLE_BYTES;

  at(index: number): Field | undefined {
    return index <= STATIC.length ? STATIC[index - 1] : this.#dynamic[index - STATIC.length - 1];
  }

  add(field: Field): void {
    const size = sizeOf(field);
    this.#shrink(this.#most - size);
    if (size > this.#most) return;
    this.#dynamic.unshift(field);
    this.#bytes += size;
  }

  /** @param most no more than {@link MOST_TABLE_BYTES} */
  resize(most: number): void {
    this.#most = most;
    this.#shrink(most);
  }

  #shrink(to: number): void {
    while (this.#bytes > to) {
      const oldest = this.#dynamic.pop();
      if (oldest === undefined) return;
      this.#bytes -= sizeOf(oldest);
    }
  }
}
