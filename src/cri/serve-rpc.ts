import type { sendUnaryData, ServerUnaryCall, ServerWritableStream, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { Op } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { canceled, deadlineExceeded, isKind, kindOf, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { encodeResponse } from './encode-response.ts';
import { toGrpc } from './error-mapping.ts';
import type { RpcImplementation, RpcMethod, RpcService } from './rpc.ts';
import { sendAll } from './send-all.ts';

/**
 * A client counts its deadline down by itself and cancels when it has passed, a moment before our own timer: a call that is
 * canceled this close to its deadline ran out of time.
 */
const DEADLINE_SLACK_MS = 1_000;

export interface ServeDeps {
  readonly log: Log;
  readonly clock: Clock;
}

/** The calls that are running, so that a server which closes can end them. */
export interface RunningCalls {
  readonly size: number;
  /** Ends every call with this error, as its op's signal and as its answer. */
  abortAll(reason: Error): void;
  /** Resolves when no call is running. */
  idle(): Promise<void>;
}

/** What both kinds of call have. */
interface CancellableCall {
  once(event: 'cancelled', listener: () => void): unknown;
  off(event: 'cancelled', listener: () => void): unknown;
  getDeadline(): Date | number;
}

/** Turns implementations of ours into what grpc-js registers: signals, errors and logs around each method. */
export class CallHost implements RunningCalls {
  readonly #deps: ServeDeps;
  readonly #running = new Set<(reason: Error) => void>();
  #onIdle: (() => void)[] = [];

  constructor(deps: ServeDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#running.size;
  }

  abortAll(reason: Error): void {
    for (const abort of [...this.#running]) abort(reason);
  }

  async idle(): Promise<void> {
    while (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle.push(resolve);
      });
    }
  }

  /** Handlers for the methods that `implementation` has; grpc-js answers UNIMPLEMENTED for all others. */
  handlers<S extends RpcService>(
    service: S,
    implementation: Partial<RpcImplementation<S>>,
  ): UntypedServiceImplementation {
    const handlers: UntypedServiceImplementation = {};
    for (const [name, method] of Object.entries(service)) {
      const handler: unknown = implementation[name];
      if (typeof handler !== 'function') continue;
      const answer = (op: Op, request: unknown): unknown => Reflect.apply(handler, implementation, [op, request]);
      handlers[name] = method.responseStream ? this.#streaming(method, answer) : this.#unary(method, answer);
    }
    return handlers;
  }

  #unary(method: RpcMethod, answer: (op: Op, request: unknown) => unknown) {
    return (call: ServerUnaryCall<unknown, Buffer>, respond: sendUnaryData<Buffer>): void => {
      void this.#run(method, call, async (op) => {
        const response = await answer(op, call.request);
        // Not left to grpc-js, which would hide what is wrong with a response that does not fit the schema.
        return encodeResponse(method, response);
      }).then(
        (bytes) => respond(null, bytes),
        (error: unknown) => respond(toGrpc(error)),
      );
    };
  }

  #streaming(method: RpcMethod, answer: (op: Op, request: unknown) => unknown) {
    return (call: ServerWritableStream<unknown, Buffer>): void => {
      void this.#run(method, call, async (op) => {
        const messages = answer(op, call.request) as AsyncIterable<unknown>;
        await sendAll(op, messages, call, (message) => encodeResponse(method, message));
      }).then(
        () => call.end(),
        (error: unknown) => call.emit('error', toGrpc(error)),
      );
    };
  }

  async #run<T>(method: RpcMethod, call: CancellableCall, work: (op: Op) => Promise<T>): Promise<T> {
    const { clock } = this.#deps;
    const log = this.#deps.log.child({ rpc: method.path.slice(method.path.lastIndexOf('/') + 1) });
    const controller = new AbortController();
    const began = clock.monotonicMs();
    const deadline = call.getDeadline();
    const deadlineWallMs = deadline instanceof Date ? deadline.getTime() : deadline;
    const onCancelled = (): void => {
      const late = clock.wallMs() >= deadlineWallMs - DEADLINE_SLACK_MS;
      controller.abort(late ? deadlineExceeded("the caller's deadline has passed") : canceled('the caller went away'));
    };
    call.once('cancelled', onCancelled);
    let endEarly: (reason: Error) => void = () => undefined;
    const ended = new Promise<never>((_resolve, reject) => {
      endEarly = (reason) => {
        controller.abort(reason);
        reject(reason);
      };
    });
    this.#running.add(endEarly);
    try {
      const leaves = Number.isFinite(deadlineWallMs) ? { callerLeavesWallMs: deadlineWallMs } : {};
      return await Promise.race([work({ signal: controller.signal, log, ...leaves }), ended]);
    } catch (error) {
      const fields = { errKind: kindOf(error), error: messageOf(error), durationMs: clock.monotonicMs() - began };
      if (isKind(error, 'Unknown', 'Internal')) log.error({ ...fields, stack: stackOf(error) }, 'call failed');
      else if (isKind(error, 'NotFound', 'Canceled')) log.debug(fields, 'call failed');
      else log.info(fields, 'call failed');
      throw error;
    } finally {
      // grpc-js says it of each call when its stream closes, answered or not.
      call.off('cancelled', onCancelled);
      this.#running.delete(endEarly);
      if (this.#running.size === 0) {
        for (const wake of this.#onIdle) wake();
        this.#onIdle = [];
      }
    }
  }
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined;
}
