import { invalidArgument } from '../../lib/errors.ts';
import type { Resource, ResourceTypes } from '../../kube/objects.ts';
import { headerOf, rowOf, type TableOptions } from './columns.ts';
import { parseFormat, structured } from './format.ts';
import { findAll, parsePath, parseTemplate, renderJson, renderText, textOf } from './json-path.ts';

/** How objects of the API are shown: all that `get -o` may ask for. */
export type ObjectFormat =
  /** `pod/web` */
  | { readonly kind: 'name' }
  /** One text of what was asked for, be it an object or a List of them. */
  | { readonly kind: 'whole'; readonly text: (value: unknown) => string | Promise<string> }
  | Rows;

/** A row for each object. */
export interface Rows {
  readonly kind: 'rows';
  /** A table for each kind of objects, and not one for all. */
  readonly byKind: boolean;
  readonly header: (resource: Resource, options: TableOptions) => string[];
  readonly row: <R extends Resource>(resource: R, object: ResourceTypes[R], options: TableOptions) => string[];
}

const TEMPLATED = {
  jsonpath: { needs: 'a template', example: '{.metadata.name}', parse: jsonPath(renderText) },
  'jsonpath-as-json': { needs: 'a template', example: '{.items[*].metadata.name}', parse: jsonPath(renderJson) },
  'custom-columns': { needs: 'columns', example: 'NAME:.metadata.name', parse: customColumns },
} as const;

/** Reads `wide`, `json`, `jsonpath={.metadata.name}` … Throws InvalidArgument. */
export function parseObjectFormat(value: string | undefined): ObjectFormat {
  const [, name = '', , argument] = /^([^=]*)(=(.*))?$/s.exec(value ?? '') ?? [];
  if (isTemplated(name)) {
    const { needs, example, parse } = TEMPLATED[name];
    if (argument === undefined || argument === '')
      throw invalidArgument(`-o ${name} needs ${needs}: -o ${name}=${example}`);
    return parse(argument);
  }
  const format = parseFormat(
    value,
    Object.keys(TEMPLATED).map((each) => `${each}=…`),
  );
  switch (format) {
    case 'table':
    case 'wide':
      return {
        kind: 'rows',
        byKind: true,
        header: (resource, options) => headerOf(resource, { ...options, wide: format === 'wide' }),
        row: (resource, object, options) => rowOf(resource, object, { ...options, wide: format === 'wide' }),
      };
    case 'json':
    case 'yaml':
      return { kind: 'whole', text: (whole) => structured(format, whole) };
    case 'name':
      return { kind: 'name' };
  }
}

function isTemplated(name: string): name is keyof typeof TEMPLATED {
  return Object.hasOwn(TEMPLATED, name);
}

function jsonPath(render: typeof renderText): (template: string) => ObjectFormat {
  return (text) => {
    const template = parseTemplate(text);
    return { kind: 'whole', text: (value) => render(template, value) };
  };
}

/** `NAME:.metadata.name,IMAGES:.spec.containers[*].image` */
function customColumns(text: string): ObjectFormat {
  const columns = splitColumns(text).map((column) => {
    const [, header = '', path = ''] = /^([^:]+):(.+)$/s.exec(column) ?? [];
    if (header === '') {
      const why = `${JSON.stringify(column)} is not of the form HEADER:PATH, such as NAME:.metadata.name`;
      throw invalidArgument(`-o custom-columns: ${why}`);
    }
    return { header, path: parsePath(path) };
  });
  return {
    kind: 'rows',
    byKind: false,
    header: () => columns.map(({ header }) => header),
    row: (_resource, object) =>
      columns.map(({ path }) => {
        const values = findAll(path, object);
        return values.length === 0 ? '<none>' : values.map(textOf).join(',');
      }),
  };
}

/** At the commas that are not within brackets. */
function splitColumns(text: string): string[] {
  return text.match(/(?:[^,[]|\[[^\]]*\])+/g) ?? [];
}
