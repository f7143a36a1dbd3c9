/** Bytes the way `docker images` and crictl show them: decimal units, three digits. */
export function humanSize(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? String(value) : value.toPrecision(3)}${units[unit] ?? ''}`;
}
