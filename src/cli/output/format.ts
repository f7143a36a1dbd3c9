import { invalidArgument } from '../../lib/errors.ts';

export type OutputFormat = 'table' | 'wide' | 'json' | 'yaml' | 'name';

const FORMATS: readonly string[] = ['wide', 'json', 'yaml', 'name'];

/** @param more what else may be asked for here, for the message. Throws InvalidArgument */
export function parseFormat(value: string | undefined, more: readonly string[] = []): OutputFormat {
  if (value === undefined || value === '') return 'table';
  if (!FORMATS.includes(value)) {
    throw invalidArgument(
      `unable to match a printer for the output format "${value}", allowed formats are: ${[...FORMATS, ...more].join(', ')}`,
    );
  }
  return value as OutputFormat;
}

/** JSON or YAML of any object, as the API has it. */
export async function structured(format: 'json' | 'yaml', value: unknown): Promise<string> {
  if (format === 'json') return `${JSON.stringify(value, undefined, 4)}\n`;
  // Not for every command to load.
  const { stringify } = await import('yaml');
  return stringify(value, { version: '1.1', lineWidth: 0, aliasDuplicateObjects: false });
}
