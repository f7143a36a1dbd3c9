export type SqlValue = string | number | bigint | null | Uint8Array;

export interface Statement {
  readonly sql: string;
  readonly params?: readonly SqlValue[];
}

/**
 * What a power cut may take: nothing that was committed (each commit is an fsync), the commits of the last second (`soon`), or all, for what lives in
 * /run and dies with the boot. The death of the process takes nothing of any.
 */
export type Durability = boolean | 'soon';

/** What the main thread asks of the store thread. */
export type StoreRequest =
  | {
      readonly kind: 'open';
      readonly seq: number;
      readonly database: number;
      readonly path: string;
      readonly schema: string;
      readonly durable: Durability;
      readonly reserve?: string;
    }
  | { readonly kind: 'reserve'; readonly seq: number; readonly path: string }
  | {
      readonly kind: 'write';
      readonly seq: number;
      readonly database: number;
      readonly statements: readonly Statement[];
    }
  | { readonly kind: 'read'; readonly seq: number; readonly database: number; readonly statement: Statement }
  | { readonly kind: 'close'; readonly seq: number; readonly database: number };

/** A file that is given up piece by piece when the disk is full. Whole while `leftBytes` is `bytes`. */
export interface ReserveState {
  readonly path: string;
  readonly bytes: number;
  readonly leftBytes: number;
}

export type StoreReply = { readonly seq: 0; readonly reserve: ReserveState } | StoreAnswer;

export type StoreAnswer =
  | { readonly seq: number; readonly ok: true; readonly value?: unknown }
  | { readonly seq: number; readonly ok: false; readonly message: string; readonly sqliteCode?: number };
