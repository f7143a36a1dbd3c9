import { parse } from 'yaml';
import { invalidArgument, messageOf } from '../../lib/errors.ts';
import { isDeviceName, isKind } from './device-name.ts';
import { readEdits, type ContainerEdits } from './container-edits.ts';
import { Fields } from './fields.ts';

/** A file of the Container Device Interface: what its vendor says must be done to a container for each of its devices. */
export interface CdiSpec {
  /** Where it was read, for messages. */
  readonly path: string;
  /** `vendor.com/class` */
  readonly kind: string;
  readonly devices: ReadonlyMap<string, ContainerEdits>;
  /** For each container that has any of the devices. */
  readonly edits: ContainerEdits;
}

/** Whose fields are all known here. */
const VERSIONS: readonly string[] = ['0.3.0', '0.4.0', '0.5.0', '0.6.0', '0.7.0', '0.8.0', '1.0.0', '1.1.0'];

/**
 * Reads JSON, which is YAML, too. By YAML 1.1, as all who write such files do: modes are octal there. A field that is not known is an
 * error: what it says would be left out. Throws InvalidArgument with the file's name.
 */
export function parseSpecFile(text: string, path: string): CdiSpec {
  try {
    return readSpec(Fields.of(parse(text, { version: '1.1', prettyErrors: false }), ''), path);
  } catch (error) {
    throw invalidArgument(`CDI file ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function readSpec(fields: Fields, path: string): CdiSpec {
  const version = fields.text('cdiVersion') ?? '';
  if (!VERSIONS.includes(version)) {
    throw invalidArgument(`cdiVersion ${JSON.stringify(version)}: known are ${VERSIONS.join(', ')}`);
  }
  const kind = fields.text('kind') ?? '';
  if (!isKind(kind)) throw invalidArgument(`kind ${JSON.stringify(kind)}: not of the form vendor.com/class`);
  fields.skip('annotations');
  const devices = new Map<string, ContainerEdits>();
  for (const device of fields.list('devices')) {
    const name = device.text('name') ?? '';
    if (!isDeviceName(name)) throw invalidArgument(`${device.path}.name ${JSON.stringify(name)}: no name for a device`);
    if (devices.has(name)) throw invalidArgument(`${device.path}.name ${name}: there are two of them`);
    device.skip('annotations');
    const edits = device.object('containerEdits');
    if (edits === undefined) throw invalidArgument(`${device.path}.containerEdits: not there`);
    devices.set(name, readEdits(edits));
    device.end();
  }
  if (devices.size === 0) throw invalidArgument('devices: there are none');
  const edits = readEdits(fields.object('containerEdits') ?? Fields.of({}, 'containerEdits'));
  fields.end();
  return { path, kind, devices, edits };
}
