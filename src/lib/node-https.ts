/** As {@link node-http.ts}, and apart from it because it brings TLS along, which not every process needs. */
export const https = process.getBuiltinModule('node:https');
