import { Metadata } from '@grpc/grpc-js';
import type { Client } from '@grpc/grpc-js';
import type { Op } from '../lib/abort.ts';
import { canceled } from '../lib/errors.ts';
import { fromGrpc } from './error-mapping.ts';
import type { RpcImplementation, RpcMethod, RpcService } from './rpc.ts';

/**
 * The methods of a service, each calling the server at the other end of `client`. When the op's signal fires the call is
 * canceled there too, and rejects here at once with the signal's reason.
 */
export function callRpc<S extends RpcService>(client: Client, service: S): RpcImplementation<S> {
  const methods: Record<string, unknown> = {};
  for (const [name, method] of Object.entries(service)) {
    methods[name] = method.responseStream
      ? (op: Op, request: unknown) => stream(client, method, op, request)
      : (op: Op, request: unknown) => unary(client, method, op, request);
  }
  return methods as RpcImplementation<S>;
}

function unary(client: Client, method: RpcMethod, op: Op, request: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (op.signal.aborted) {
      reject(reasonOf(op.signal));
      return;
    }
    const onAbort = (): void => {
      call.cancel();
      reject(reasonOf(op.signal));
    };
    const call = client.makeUnaryRequest(
      method.path,
      serializer(method),
      (bytes) => method.responseDeserialize(bytes),
      request,
      new Metadata(),
      {},
      (error, response) => {
        op.signal.removeEventListener('abort', onAbort);
        if (error === null) resolve(response);
        else reject(fromGrpc(error));
      },
    );
    op.signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** The call is made now and not with the first read: whoever asks for events and then for a list misses nothing in between. */
function stream(client: Client, method: RpcMethod, op: Op, request: unknown): AsyncIterableIterator<unknown> {
  const messages = receive(client, method, op, request);
  let first: Promise<IteratorResult<unknown>> | undefined = messages.next();
  first.catch(() => undefined);
  return {
    next: () => {
      const result = first ?? messages.next();
      first = undefined;
      return result;
    },
    return: () => messages.return(undefined),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* receive(client: Client, method: RpcMethod, op: Op, request: unknown): AsyncGenerator {
  if (op.signal.aborted) throw reasonOf(op.signal);
  const call = client.makeServerStreamRequest(
    method.path,
    serializer(method),
    (bytes) => method.responseDeserialize(bytes),
    request,
    new Metadata(),
    {},
  );
  let reason: Error | undefined;
  const onAbort = (): void => {
    reason = reasonOf(op.signal);
    call.cancel();
  };
  op.signal.addEventListener('abort', onAbort, { once: true });
  try {
    for await (const message of call) yield message;
  } catch (error) {
    throw reason ?? fromGrpc(error);
  } finally {
    op.signal.removeEventListener('abort', onAbort);
    call.cancel();
  }
}

function serializer(method: RpcMethod): (value: unknown) => Buffer {
  return (value) => method.requestSerialize(value as never);
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : canceled('canceled');
}
