import { serveInspector } from '../../src/cri/inspector/inspector-service.ts';
import { serveCri } from '../../src/cri/server.ts';
import { joinOwnCgroup } from '../../src/gantryd/own-places.ts';
import { systemClock as clock } from '../../src/lib/clock.ts';
import { keepAlive } from '../../src/lib/keep-alive.ts';
import { op, openRuntime, type Places } from '../integration/runtime/runtime-fixture.ts';
import { PlannedFaults } from './planned-faults.ts';

/** A runtime that serves CRI, as soon as it can be asked anything, until a planned fault or a test kills it. */
keepAlive();
const places = JSON.parse(process.env['PLACES'] ?? '{}') as Places;
const faults = new PlannedFaults(process.env['GANTRY_FAULT'] ?? '');
// As gantryd does it before all else: what the one before had at work (a network plug-in, a start) is waited for.
await joinOwnCgroup(places, clock, op.log);
const { runtime } = await openRuntime(places, { faults });
await serveCri({
  listen: places.criSocket,
  runtime: runtime.runtime,
  image: runtime.image,
  extraServices: [serveInspector(runtime.inspector)],
  log: op.log,
});
process.stdout.write('serving\n');
