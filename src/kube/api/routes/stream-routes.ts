import type { Clock } from '../../../lib/clock.ts';
import { apiError } from '../../status-error.ts';
import { STREAM_SUBRESOURCES, type PodStreamUrls, type StreamSubresource } from '../../streams/pod-streams.ts';
import { parseStreamRequest } from '../../streams/stream-query.ts';
import { proxyUpgrade } from '../upgrade-proxy.ts';
import { methodNotAllowed, type Exchange } from './exchange.ts';

export interface StreamRoutesDeps {
  readonly clock: Clock;
  readonly streams?: PodStreamUrls;
}

export function isStreamSubresource(name: string): name is StreamSubresource {
  return STREAM_SUBRESOURCES.some((each) => each === name);
}

/** Whether a connection may become something else than HTTP for this request; anywhere else the wish for it is passed over. */
export function isStreamPath(url: string): boolean {
  return /^\/api\/v1\/namespaces\/[^/?]+\/pods\/[^/?]+\/(exec|attach|portforward)(\?|$)/.test(url);
}

/**
 * exec, attach and portforward of a pod, as Kubernetes has them: with SPDY (POST) or WebSocket (GET). Which of their versions is
 * between the client and the runtime, to which the connection is handed on. Resolves when it is over.
 */
export async function serveStream(
  { clock, streams }: StreamRoutesDeps,
  exchange: Exchange,
  kind: StreamSubresource,
  pod: { readonly namespace: string; readonly name: string },
): Promise<void> {
  const { op, method, query, request, response, upgrade } = exchange;
  if (method !== 'GET' && method !== 'POST') throw methodNotAllowed(exchange);
  if (streams === undefined) throw apiError('NotImplemented', `${kind}: not served by this API`);
  const wanted = parseStreamRequest(kind, pod, query);
  if (upgrade === undefined) throw apiError('BadRequest', 'Upgrade request required');
  const url = new URL(await streams.streamUrl(op, wanted));
  const { socket: client, head } = upgrade;
  await proxyUpgrade(op, clock, url, { request, client, head }, () => response.detachSocket(request.socket));
}
