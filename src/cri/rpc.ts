import type { Op } from '../lib/abort.ts';

/** One method of a service as ts-proto describes it. Messages go in and out of it as bytes. */
export interface RpcMethod {
  readonly path: string;
  readonly requestStream: false;
  readonly responseStream: boolean;
  readonly requestSerialize: (value: never) => Buffer;
  readonly requestDeserialize: (value: Buffer) => unknown;
  readonly responseSerialize: (value: never) => Buffer;
  readonly responseDeserialize: (value: Buffer) => unknown;
}

/** A service: the generated `…Service` constant. */
export type RpcService = Readonly<Record<string, RpcMethod>>;

export type RpcHandler<M extends RpcMethod> = (
  op: Op,
  request: ReturnType<M['requestDeserialize']>,
) => M['responseStream'] extends true
  ? AsyncIterable<ReturnType<M['responseDeserialize']>>
  : Promise<ReturnType<M['responseDeserialize']>>;

/** The methods of a service as an object of ours: `interface RuntimeService` is one. */
export type RpcImplementation<S extends RpcService> = { readonly [K in keyof S]: RpcHandler<S[K]> };

/** A service beside CRI's two on the same socket. Made by {@link rpcService}. */
export interface ExtraService {
  readonly definition: RpcService;
  readonly implementation: Readonly<Record<string, unknown>>;
}

/** Ties a generated service to an implementation of it. A method that is absent answers UNIMPLEMENTED. */
export function rpcService<S extends RpcService>(
  definition: S,
  implementation: Partial<RpcImplementation<S>>,
): ExtraService {
  return { definition, implementation };
}
