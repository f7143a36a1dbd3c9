import { apiError } from '../status-error.ts';
import type { PodStreamRequest, StreamSubresource, WantedStreams } from './pod-streams.ts';

/** Between a request and the query parameters by which Kubernetes' clients say it: both ways. */

/** What a client adds to the path of the subresource. */
export function streamQuery(request: PodStreamRequest): URLSearchParams {
  const query = new URLSearchParams();
  if (request.kind === 'portforward') {
    for (const port of request.ports ?? []) query.append('ports', String(port));
    return query;
  }
  if (request.kind === 'exec') for (const word of request.command) query.append('command', word);
  if (request.container !== undefined) query.set('container', request.container);
  for (const name of ['stdin', 'stdout', 'stderr', 'tty'] as const) query.set(name, String(request[name]));
  return query;
}

/**
 * What a client has asked for. stdout and stderr are on unless it says otherwise, as in Kubernetes, and a terminal has no stderr.
 *
 * @throws BadRequest
 */
export function parseStreamRequest(
  kind: StreamSubresource,
  pod: { readonly namespace: string; readonly name: string },
  query: URLSearchParams,
): PodStreamRequest {
  if (kind === 'portforward') {
    const ports = query
      .getAll('ports')
      .flatMap((text) => text.split(','))
      .map(portNumber);
    return { kind, ...pod, ...(ports.length === 0 ? {} : { ports }) };
  }
  const streams = wantedStreams(query);
  const container = query.get('container') ?? '';
  const common = { ...pod, ...streams, ...(container === '' ? {} : { container }) };
  if (kind === 'attach') return { kind, ...common };
  const command = query.getAll('command');
  if (command.length === 0) throw apiError('BadRequest', 'you must specify at least one command for the container');
  return { kind, ...common, command };
}

function wantedStreams(query: URLSearchParams): WantedStreams {
  const flag = (name: string, fallback: boolean): boolean => {
    const value = query.get(name);
    return value === null ? fallback : value !== '0' && value.toLowerCase() !== 'false';
  };
  const tty = flag('tty', false);
  const streams = {
    stdin: flag('stdin', false),
    stdout: flag('stdout', true),
    stderr: !tty && flag('stderr', true),
    tty,
  };
  if (streams.stdin || streams.stdout || streams.stderr) return streams;
  throw apiError('BadRequest', 'you must specify at least 1 of stdin, stdout, stderr');
}

function portNumber(text: string): number {
  const port = Number(text);
  if (/^[0-9]{1,5}$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw apiError('BadRequest', `${JSON.stringify(text)} is not a valid port`);
}
