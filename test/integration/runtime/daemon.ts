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
await runtime.recovered;
process.stdout.write('serving\n');
