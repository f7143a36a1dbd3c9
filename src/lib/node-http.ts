/**
 * Node's HTTP as a value; its types come from `node:http` itself (`import type`).
 *
 * An `import` of node:http has Node make an ES module of it, for which it reads every export, and two of them (fetch's WebSocket
 * and its events) load a whole HTTP client as soon as they are read: 20 to 45 ms and 4 to 15 MB in each process.
 */
export const http = process.getBuiltinModule('node:http');
