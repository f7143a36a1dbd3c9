/** The directory of a layer: the hex digits of its diffId. */
export function layerName(diffId: string): string {
  return diffId.slice(diffId.indexOf(':') + 1);
}
