import { Client, credentials } from '@grpc/grpc-js';
import type { ClientOptions } from '@grpc/grpc-js';
import { unixSocketPath } from '../lib/unix-socket.ts';
import { callRpc } from './call-rpc.ts';
import { ImageServiceService, RuntimeServiceService } from './gen/api.ts';
import type { RpcImplementation, RpcService } from './rpc.ts';
import type { ImageService, RuntimeService } from './services.ts';

/** One connection to a CRI socket, made with the first call and made again whenever it was lost. */
export interface CriConnection extends Disposable {
  readonly runtime: Required<RuntimeService>;
  readonly image: Required<ImageService>;
  /** A further service on the same socket. */
  service<S extends RpcService>(definition: S): RpcImplementation<S>;
  close(): void;
}

/** A daemon that was restarted is found again within this time, not after grpc-js's two minutes. */
const MAX_RECONNECT_MS = 1_000;
const FIRST_RECONNECT_MS = 50;
const UNLIMITED = -1;

const OPTIONS: ClientOptions = {
  // The socket's path would be refused by other Node servers.
  'grpc.default_authority': 'localhost',
  'grpc.max_receive_message_length': UNLIMITED,
  'grpc.max_send_message_length': UNLIMITED,
  'grpc.initial_reconnect_backoff_ms': FIRST_RECONNECT_MS,
  'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
};

/**
 * A remote runtime (Gantry's own, containerd, CRI-O) behind the interfaces that an in-process one has. Never fails by
 * itself: a socket that nobody serves makes each call fail with Unavailable. Throws InvalidArgument for an address that is
 * no unix socket's.
 */
export function connectCri(address: string): CriConnection {
  const client = new Client(`unix:${unixSocketPath(address)}`, credentials.createInsecure(), OPTIONS);
  const service = <S extends RpcService>(definition: S): RpcImplementation<S> => callRpc(client, definition);
  const close = (): void => client.close();
  return {
    runtime: service(RuntimeServiceService),
    image: service(ImageServiceService),
    service,
    close,
    [Symbol.dispose]: close,
  };
}
