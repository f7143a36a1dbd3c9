import { invalidArgument } from '../../lib/errors.ts';

/** `vendor.com/class=name`, in its parts. */
export interface DeviceName {
  readonly kind: string;
  readonly name: string;
}

const KIND = /^[A-Za-z](?:[\w.-]*[A-Za-z0-9])?\/[A-Za-z](?:[\w.-]*[A-Za-z0-9])?$/;
const NAME = /^[A-Za-z0-9](?:[\w.:-]*[A-Za-z0-9])?$/;
const ANNOTATION_PREFIX = 'cdi.k8s.io/';

export function isKind(text: string): boolean {
  return KIND.test(text);
}

export function isDeviceName(text: string): boolean {
  return NAME.test(text);
}

/** Throws InvalidArgument for what is no fully qualified name of a CDI device. */
export function parseDeviceName(text: string): DeviceName {
  const equals = text.indexOf('=');
  const kind = text.slice(0, Math.max(equals, 0));
  const name = text.slice(equals + 1);
  if (equals < 0 || !isKind(kind) || !isDeviceName(name)) {
    throw invalidArgument(`CDI device ${JSON.stringify(text)}: not of the form vendor.com/class=name`);
  }
  return { kind, name };
}

/**
 * The devices that a container asks for, each once: CRI's own field first, then the annotations under `cdi.k8s.io/`, whose values are
 * names with commas between them. Throws InvalidArgument.
 */
export function requestedDevices(
  fields: readonly string[],
  annotations: Readonly<Record<string, string>>,
): readonly string[] {
  const annotated = Object.entries(annotations)
    .filter(([key]) => key.startsWith(ANNOTATION_PREFIX))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, value]) => value.split(','))
    .map((name) => name.trim());
  const names = [...new Set([...fields, ...annotated])];
  for (const name of names) parseDeviceName(name);
  return names;
}
