import type https from 'node:https';
import type tls from 'node:tls';

/**
 * As {@link node-http.ts}, and loaded with the first registry that is asked over TLS: Node reads certificates then, and no pod that runs needs
 * any.
 */
export const nodeTls = {
  get https(): typeof https {
    return process.getBuiltinModule('node:https');
  },
  get tls(): typeof tls {
    return process.getBuiltinModule('node:tls');
  },
};
