import { isQuantity, quantityToNumber } from './quantity.ts';

/** How Kubernetes writes huge pages: as a resource `hugepages-2Mi`, as a medium `HugePages-2Mi` or, of the pod's only size, `HugePages`. */
const RESOURCE = 'hugepages-';
export const HUGE_PAGES_MEDIUM = 'HugePages';

/** Bytes of a page; undefined for what is no such resource. */
export function hugePageOfResource(name: string): number | undefined {
  return name.startsWith(RESOURCE) ? pageBytes(name.slice(RESOURCE.length)) : undefined;
}

export function isHugePagesMedium(medium: string): boolean {
  return medium === HUGE_PAGES_MEDIUM || hugePageOfMedium(medium) !== undefined;
}

/** Bytes of a page; undefined for a medium that does not say it, and for any other. */
export function hugePageOfMedium(medium: string): number | undefined {
  const prefix = `${HUGE_PAGES_MEDIUM}-`;
  return medium.startsWith(prefix) ? pageBytes(medium.slice(prefix.length)) : undefined;
}

/** `hugepages-2Mi` */
export function hugePagesResource(bytes: number): string {
  return `${RESOURCE}${binary(bytes, ['', 'Ki', 'Mi', 'Gi', 'Ti'])}`;
}

/** As cgroups and CRI call it: `2MB`. */
export function hugePageName(bytes: number): string {
  return binary(bytes, ['B', 'KB', 'MB', 'GB', 'TB']);
}

function pageBytes(text: string): number | undefined {
  if (!isQuantity(text)) return undefined;
  const bytes = quantityToNumber(text);
  return bytes > 0 ? bytes : undefined;
}

function binary(bytes: number, units: readonly string[]): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && value % 1024 === 0 && unit < units.length - 1; unit++) value /= 1024;
  return `${String(value)}${units[unit] ?? ''}`;
}
