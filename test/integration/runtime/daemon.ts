import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { serveCri } from '../../../src/cri/server.ts';
import { serveInspector } from '../../../src/cri/inspector/inspector-service.ts';
import type { DaemonOptions } from './daemon-process.ts';
import { op, openRuntime, type Places } from './runtime-fixture.ts';

/** A runtime that serves CRI until it is killed: for tests that kill it. */
const places = JSON.parse(process.env['PLACES'] ?? '{}') as Places;
const options = JSON.parse(process.env['OPTIONS'] ?? '{}') as DaemonOptions;
const { runtime } = await openRuntime(places, options);
await serveCri({
  listen: places.criSocket,
  runtime: runtime.runtime,
  image: runtime.image,
  extraServices: [serveInspector(runtime.inspector)],
  log: op.log,
});
// For whoever wants to know what it keeps: a collection, then what is in use, in a line of its own.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
process.on('SIGUSR2', () => {
  for (let round = 0; round < 3; round++) collect();
  const { heapUsed, external } = process.memoryUsage();
  process.stdout.write(`memory ${heapUsed + external}\n`);
});
await runtime.recovered;
process.stdout.write('serving\n');
