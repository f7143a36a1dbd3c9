import type { IncomingHttpHeaders } from 'node:http';
import type { StreamCall } from './stream-call.ts';

/** What a session is spoken in. */
export type Protocol =
  /** SPDY frames on the socket. */
  | { readonly wire: 'spdy'; readonly name: string }
  /** SPDY frames in WebSocket messages. */
  | { readonly wire: 'spdy-in-websocket'; readonly name: string }
  /** Each WebSocket message begins with its channel's number. */
  | {
      readonly wire: 'websocket';
      /** As it is called in the answer; a client that asked for none gets none. */
      readonly name: string | undefined;
      readonly codec: 'binary' | 'base64';
      /** The client closes one channel by a message on channel 255. */
      readonly closesChannels: boolean;
      /** The outcome is a Status in JSON, with the exit code; else it is text. */
      readonly status: boolean;
    };

export interface Refusal {
  readonly code: 400 | 403;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The newest first. From v4 on the outcome is a Status, from v3 on there is a stream for resizes; SPDY has no v5 of its own. */
const COMMAND_OVER_SPDY = ['v4.channel.k8s.io', 'v3.channel.k8s.io', 'v2.channel.k8s.io', 'channel.k8s.io'];
const PORT_FORWARD = 'portforward.k8s.io';
const TUNNEL_PREFIX = 'SPDY/3.1+';
const CHANNELS = [
  'v5.channel.k8s.io',
  'v4.channel.k8s.io',
  'v4.base64.channel.k8s.io',
  'channel.k8s.io',
  'base64.channel.k8s.io',
];
/** v5 is remotecommand's alone. */
const PORT_FORWARD_CHANNELS = ['v4.channel.k8s.io', 'v4.base64.channel.k8s.io'];

/** Of what the client can speak, its first choice that is spoken here. */
export function negotiateProtocol(kind: StreamCall['kind'], headers: IncomingHttpHeaders): Protocol | Refusal {
  const upgrade = (headers.upgrade ?? '').toLowerCase();
  if (upgrade === 'websocket') return overWebSocket(kind, listed(headers['sec-websocket-protocol']));
  if (upgrade === 'spdy/3.1') return overSpdy(kind, listed(headers['x-stream-protocol-version']));
  return { code: 400, message: `cannot upgrade to ${JSON.stringify(upgrade)}: it has to be SPDY/3.1 or websocket` };
}

function overSpdy(kind: StreamCall['kind'], asked: readonly string[]): Protocol | Refusal {
  const spoken = kind === 'portforward' ? [PORT_FORWARD] : COMMAND_OVER_SPDY;
  if (asked.length === 0) return { code: 400, message: 'the header X-Stream-Protocol-Version is missing' };
  const name = asked.find((one) => spoken.includes(one));
  if (name !== undefined) return { wire: 'spdy', name };
  return {
    code: 403,
    message: `none of the protocols ${asked.join(', ')} is spoken here; ${spoken.join(', ')} are`,
    headers: { 'X-Accepted-Stream-Protocol-Versions': spoken.join(', ') },
  };
}

function overWebSocket(kind: StreamCall['kind'], asked: readonly string[]): Protocol | Refusal {
  const tunnel = `${TUNNEL_PREFIX}${PORT_FORWARD}`;
  const spoken = kind === 'portforward' ? [tunnel, ...PORT_FORWARD_CHANNELS] : CHANNELS;
  const name = asked.find((one) => spoken.includes(one));
  if (name === undefined && asked.length > 0) {
    return { code: 400, message: `none of the protocols ${asked.join(', ')} is spoken here; ${spoken.join(', ')} are` };
  }
  if (name === tunnel) return { wire: 'spdy-in-websocket', name };
  return {
    wire: 'websocket',
    name,
    codec: name?.includes('base64') === true ? 'base64' : 'binary',
    closesChannels: name?.startsWith('v5.') === true,
    status: name?.startsWith('v') === true,
  };
}

function listed(header: string | readonly string[] | undefined): readonly string[] {
  const all = typeof header === 'string' ? header : (header ?? []).join(',');
  return all
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}

export function isRefusal(answer: Protocol | Refusal): answer is Refusal {
  return 'code' in answer;
}
