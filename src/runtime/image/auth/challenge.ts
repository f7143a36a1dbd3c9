/** One way to authenticate that a server offers (RFC 9110, WWW-Authenticate). */
export interface Challenge {
  /** Lower case: `bearer`, `basic`. */
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

const TOKEN = /[!#$%&'*+.^_`|~0-9A-Za-z-]/;

/** Reads every challenge of a header's value, tolerating what cannot be read: an odd server must not end a pull. */
export function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Record<string, string> }[] = [];
  let at = 0;
  const skip = (set: string): void => {
    while (at < header.length && set.includes(header.charAt(at))) at++;
  };
  const token = (): string => {
    const from = at;
    while (at < header.length && TOKEN.test(header.charAt(at))) at++;
    return header.slice(from, at);
  };
  while (at < header.length) {
    skip(' \t,');
    const name = token();
    if (name === '') {
      at++;
      continue;
    }
    const afterName = at;
    skip(' \t');
    if (header.charAt(at) !== '=') {
      challenges.push({ scheme: name.toLowerCase(), parameters: {} });
      continue;
    }
    at++;
    skip(' \t');
    const value = header.charAt(at) === '"' ? quoted() : token();
    const current = challenges.at(-1);
    if (current === undefined) at = Math.max(at, afterName + 1);
    else current.parameters[name.toLowerCase()] = value;
  }
  return challenges;

  function quoted(): string {
    at++;
    let value = '';
    while (at < header.length && header.charAt(at) !== '"') {
      if (header.charAt(at) === '\\') at++;
      value += header.charAt(at++);
    }
    at++;
    return value;
  }
}
