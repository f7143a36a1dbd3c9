import type { PodStreams } from '../streams/pod-streams.ts';
import type { HttpConnection } from './http-connection.ts';

/** exec, attach and port-forward over an API's address. What they take to load is loaded by those who use them. */
export function httpPodStreams(connection: HttpConnection): PodStreams {
  return {
    run: async (op, request) => {
      const { openRemoteSession } = await import('./remote-session.ts');
      return await openRemoteSession(op, connection, request);
    },
    forward: async (op, request) => {
      const { openPortForwardSession } = await import('./port-forward-session.ts');
      return await openPortForwardSession(op, connection, request);
    },
  };
}
