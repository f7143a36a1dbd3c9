import type { Op } from '../lib/abort.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { canceled, deadlineExceeded, internal, isKind, kindOf, messageOf, notImplemented } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { encodeResponse } from './encode-response.ts';
import { ANSWER_HEADER, failure, framed, MessageReader, readHeader, SUCCESS, type RequestHeader } from './grpc-wire.ts';
import type { Field } from './http2/header-table.ts';
import type { RequestBody, ServerStream } from './http2/server-stream.ts';
import { RequestBudget, type RequestShare } from './request-budget.ts';
import type { ExtraService, RpcMethod } from './rpc.ts';
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

/** A method, and who answers it. */
interface Answerer {
  readonly method: RpcMethod;
  /** A promise of the response, or the responses as they come. */
  readonly answer: (op: Op, request: unknown) => unknown;
}

/** gRPC's calls, each of one request, on implementations of ours: signals, deadlines, errors and logs around each method. */
export class CallHost {
  readonly #deps: ServeDeps;
  readonly #answerers: ReadonlyMap<string, Answerer>;
  readonly #budget = new RequestBudget();
  readonly #running = new Set<Call>();
  #onIdle: (() => void)[] = [];

  /** Methods that no implementation has answer UNIMPLEMENTED. */
  constructor(services: readonly ExtraService[], deps: ServeDeps) {
    this.#deps = deps;
    this.#answerers = new Map(services.flatMap(answerersOf));
  }

  /** How many calls are running. */
  get size(): number {
    return this.#running.size;
  }

  /** Ends every call with this error, as its op's signal and as its answer. */
  abortAll(reason: Error): void {
    for (const call of [...this.#running]) call.abort(reason);
  }

  /** Resolves when no call is running. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle.push(resolve);
      });
    }
  }

  /** Answers the request that begins on the stream. */
  accept(stream: ServerStream, fields: readonly Field[]): void {
    const header = readHeader(fields);
    if ('refusal' in header) {
      stream.header(header.refusal, true);
      stream.settled();
      return;
    }
    const answerer = this.#answerers.get(header.path);
    if (answerer === undefined) {
      stream.header(failure(notImplemented(`${header.path} is not implemented`), true), true);
      stream.settled();
      return;
    }
    const call = new Call(stream, header, answerer, this.#budget.share(), this.#deps);
    stream.body = call;
    this.#running.add(call);
    void call.ended.then(() => {
      this.#running.delete(call);
      if (this.#running.size > 0) return;
      for (const wake of this.#onIdle) wake();
      this.#onIdle = [];
    });
  }
}

function answerersOf({ definition, implementation }: ExtraService): [path: string, Answerer][] {
  return Object.entries(definition).flatMap(([name, method]): [string, Answerer][] => {
    const handler: unknown = implementation[name];
    if (typeof handler !== 'function') return [];
    const answer = (op: Op, request: unknown): unknown => Reflect.apply(handler, implementation, [op, request]);
    return [[method.path, { method, answer }]];
  });
}

/** One call, from its header to its end. */
class Call implements RequestBody {
  /** Fulfilled when it has been answered, or nobody waits for that any more. */
  readonly ended: Promise<unknown>;
  readonly #end = Promise.withResolvers<unknown>();
  readonly #stream: ServerStream;
  readonly #answerer: Answerer;
  readonly #deps: ServeDeps;
  readonly #began: number;
  readonly #leavesWallMs: number;
  readonly #timer: Timer | undefined;
  readonly #share: RequestShare;
  #message = new MessageReader();
  #controller: AbortController | undefined;
  #ownLog: Log | undefined;
  #aborted: Error | undefined;
  #headerSent = false;
  #state: 'reading' | 'running' | 'over' = 'reading';

  constructor(
    stream: ServerStream,
    { timeoutMs }: RequestHeader,
    answerer: Answerer,
    share: RequestShare,
    deps: ServeDeps,
  ) {
    this.#stream = stream;
    this.#answerer = answerer;
    this.#share = share;
    this.#deps = deps;
    this.ended = this.#end.promise;
    const { clock } = deps;
    this.#began = clock.monotonicMs();
    this.#leavesWallMs = timeoutMs === undefined ? Number.POSITIVE_INFINITY : clock.wallMs() + timeoutMs;
    this.#timer = timeoutMs === undefined ? undefined : clock.after(timeoutMs, () => this.abort(outOfTime()));
  }

  piece(bytes: Buffer): void {
    if (this.#state !== 'reading') return;
    try {
      this.#share.grow(bytes.length);
      this.#message.push(bytes);
    } catch (error) {
      this.#refuse(error);
    }
  }

  end(): void {
    if (this.#state !== 'reading') return;
    let request: unknown;
    try {
      request = this.#request();
    } catch (error) {
      this.#refuse(error);
      return;
    }
    this.#state = 'running';
    void this.#run(request)
      .catch((error: unknown) => this.#failed(error))
      .then(() => {
        this.#settle();
        // Not before: an implementation may go on with what nobody waits for.
        this.#stream.settled();
      });
  }

  gone(): void {
    const late = this.#deps.clock.wallMs() >= this.#leavesWallMs - DEADLINE_SLACK_MS;
    this.abort(late ? outOfTime() : canceled('the caller went away'));
  }

  /** Its op's signal fires, and this is its answer at once, whatever the implementation goes on with. */
  abort(reason: Error): void {
    if (this.#state === 'over' || this.#aborted !== undefined) return;
    this.#aborted = reason;
    this.#controller?.abort(reason);
    this.#failed(reason);
    this.#settle();
  }

  async #run(request: unknown): Promise<void> {
    const { method, answer } = this.#answerer;
    if (method.responseStream) {
      const op = this.#op();
      await sendAll(op, answer(op, request) as AsyncIterable<unknown>, this.#outgoing(), (message) =>
        framed(encodeResponse(method, message)),
      );
    } else {
      const message = framed(encodeResponse(method, await answer(this.#op(), request)));
      if (this.#over) return;
      this.#sendHeader();
      this.#stream.write(message);
    }
    if (this.#over) return;
    this.#sendHeader();
    this.#stream.end(SUCCESS);
  }

  get #over(): boolean {
    return this.#state === 'over';
  }

  #request(): unknown {
    const bytes = this.#message.whole();
    this.#letGo();
    try {
      return this.#answerer.method.requestDeserialize(bytes);
    } catch (error) {
      throw internal(`the request does not fit the schema: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Of the request's bytes: they are read, or nobody will. */
  #letGo(): void {
    this.#share[Symbol.dispose]();
    this.#message = new MessageReader();
  }

  /** Messages of a stream go out behind the header, and nothing behind the end. */
  #outgoing(): Parameters<typeof sendAll>[2] {
    const stream = this.#stream;
    return {
      write: (bytes) => {
        if (this.#over) return true;
        this.#sendHeader();
        return stream.write(bytes);
      },
      once: (event, listener) => stream.once(event, listener),
      removeListener: (event, listener) => stream.removeListener(event, listener),
    };
  }

  /** Signal and log are made when they are asked for: most calls are answered before anybody could. */
  #op(): Op {
    const signal = (): AbortSignal => this.#signal;
    const log = (): Log => this.#log;
    return {
      get signal() {
        return signal();
      },
      get log() {
        return log();
      },
      ...(Number.isFinite(this.#leavesWallMs) ? { callerLeavesWallMs: this.#leavesWallMs } : {}),
    };
  }

  get #log(): Log {
    return (this.#ownLog ??= this.#deps.log.child({ rpc: nameOf(this.#answerer.method.path) }));
  }

  get #signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  #sendHeader(): void {
    if (this.#headerSent) return;
    this.#headerSent = true;
    this.#stream.header(ANSWER_HEADER);
  }

  /** What was sent is no request of this method. */
  #refuse(error: unknown): void {
    this.#log.debug({ error: messageOf(error) }, 'a request that makes no sense');
    this.#tell(error);
    this.#settle();
  }

  #failed(error: unknown): void {
    if (this.#over) return;
    const durationMs = this.#deps.clock.monotonicMs() - this.#began;
    const fields = { errKind: kindOf(error), error: messageOf(error), durationMs };
    if (isKind(error, 'Unknown', 'Internal')) this.#log.error({ ...fields, stack: stackOf(error) }, 'call failed');
    else if (isKind(error, 'NotFound', 'Canceled')) this.#log.debug(fields, 'call failed');
    else this.#log.info(fields, 'call failed');
    this.#tell(error);
  }

  /** The answer is this error. */
  #tell(error: unknown): void {
    const last = failure(error, !this.#headerSent);
    if (this.#headerSent) this.#stream.end(last);
    else this.#stream.header(last, true);
  }

  #settle(): void {
    if (this.#state === 'reading') this.#stream.settled();
    this.#state = 'over';
    this.#letGo();
    this.#timer?.cancel();
    this.#end.resolve(undefined);
  }
}

function outOfTime(): Error {
  return deadlineExceeded("the caller's deadline has passed");
}

/** `ListContainers` of `/runtime.v1.RuntimeService/ListContainers`. */
function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined;
}
