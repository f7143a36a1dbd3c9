import { Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { ProtoMethod } from './proto-schema.ts';

/** What became of one call. */
export interface RawAnswer {
  /** gRPC's name of it: `OK`, `NOT_FOUND` … */
  readonly code: string;
  readonly message: string;
  /** The response, of a call that has one. */
  readonly bytes: Buffer;
}

const same = (bytes: Buffer): Buffer => bytes;
/** A stream that has nothing more to say is left. */
const STREAM_MS = 200;

/** A connection to a CRI socket on which any bytes can be sent as a request. */
export class RawCri implements Disposable {
  readonly #client: Client;

  constructor(socket: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
      'grpc.max_receive_message_length': -1,
      'grpc.use_local_subchannel_pool': 1,
    });
  }

  async call({ path, streams }: ProtoMethod, request: Buffer, deadlineMs: number): Promise<RawAnswer> {
    const options = { deadline: Date.now() + (streams ? Math.min(STREAM_MS, deadlineMs) : deadlineMs) };
    return await new Promise((resolve) => {
      const fail = (error: ServiceError): void => {
        resolve({ code: status[error.code], message: error.details, bytes: Buffer.alloc(0) });
      };
      if (streams) {
        const call = this.#client.makeServerStreamRequest(path, same, same, request, new Metadata(), options);
        call.on('data', () => undefined);
        call.on('error', fail);
        call.on('end', () => resolve({ code: 'OK', message: '', bytes: Buffer.alloc(0) }));
        return;
      }
      this.#client.makeUnaryRequest(path, same, same, request, new Metadata(), options, (error, bytes) => {
        if (error === null) resolve({ code: 'OK', message: '', bytes: bytes ?? Buffer.alloc(0) });
        else fail(error);
      });
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
