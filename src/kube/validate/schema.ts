import type { Check } from './names.ts';

/** The shape of a value. Data, not code: the tables in this folder are read by the structure check and by nobody else. */
export type Shape =
  | { readonly kind: 'string'; readonly check?: Check; readonly oneOf?: readonly string[] }
  | { readonly kind: 'integer'; readonly min?: number; readonly max?: number }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'quantity' }
  /** Accepted as it is: for parts whose content is nobody's business here. */
  | { readonly kind: 'any' }
  | { readonly kind: 'map'; readonly value: Shape; readonly key?: Check }
  /** `unique`: the item field (or, '' for scalars, the item itself) that may not appear twice. */
  | { readonly kind: 'list'; readonly item: Shape; readonly unique?: string }
  | { readonly kind: 'object'; readonly fields: Readonly<Record<string, Field>> };

export interface Field {
  readonly shape: Shape;
  readonly required?: boolean;
  /**
   * What happens to a field that this release does not act on. `refuse`: leaving it out would change what the pod does or
   * how safe it is. `warn`: the pod runs as it would on a cluster of one node, and the field is kept and named.
   */
  readonly unsupported?: {
    readonly how: 'refuse' | 'warn';
    readonly why: string;
    /** Values that ask for nothing that is not done anyway. */
    readonly unless: readonly unknown[];
    /** `false`, `0` and `{}` are requests too. */
    readonly evenIfEmpty?: boolean;
  };
}

export type Fields = Readonly<Record<string, Field>>;

export const text: Shape = { kind: 'string' };
export const flag: Shape = { kind: 'boolean' };
export const any: Shape = { kind: 'any' };
export const quantity: Shape = { kind: 'quantity' };
export const integer = (min?: number, max?: number): Shape => ({ kind: 'integer', min, max });
export const checked = (check: Check): Shape => ({ kind: 'string', check });
export const oneOf = (...values: readonly string[]): Shape => ({ kind: 'string', oneOf: values });
export const list = (item: Shape, unique?: string): Shape => ({ kind: 'list', item, unique });
export const map = (value: Shape, key?: Check): Shape => ({ kind: 'map', value, key });
export const object = (fields: Fields): Shape => ({ kind: 'object', fields });

export const has = (shape: Shape): Field => ({ shape });
export const must = (shape: Shape): Field => ({ shape, required: true });

/** Empty values (`[]`, `{}`, `''`, `false`, `0`) and those in `unless` mean what leaving the field out means. */
export const refuse = (why: string, ...unless: readonly unknown[]): Field => ({
  shape: any,
  unsupported: { how: 'refuse', why, unless },
});

/** As {@link refuse}, for a field whose empty value is a request as well. */
export const refusePresent = (why: string, ...unless: readonly unknown[]): Field => ({
  shape: any,
  unsupported: { how: 'refuse', why, unless, evenIfEmpty: true },
});

/** As {@link refuse}, but only says so. */
export const warn = (why: string, ...unless: readonly unknown[]): Field => ({
  shape: any,
  unsupported: { how: 'warn', why, unless },
});
