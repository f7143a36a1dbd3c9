/**
 * Kubernetes' `$(NAME)` references. `$$` is a literal dollar sign; a reference to what is not known stays as it was
 * written. `lookup` answers undefined for an unknown name.
 */
export function expand(text: string, lookup: (name: string) => string | undefined): string {
  let result = '';
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? '';
    if (char !== '$') {
      result += char;
      continue;
    }
    if (text[at + 1] === '$') {
      result += '$';
      at++;
      continue;
    }
    const end = text[at + 1] === '(' ? text.indexOf(')', at + 2) : -1;
    if (end < 0) {
      result += char;
      continue;
    }
    const name = text.slice(at + 2, end);
    result += lookup(name) ?? `$(${name})`;
    at = end;
  }
  return result;
}
