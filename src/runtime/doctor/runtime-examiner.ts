import { basename } from 'node:path';
import type { Op } from '../../lib/abort.ts';
import type { Diagnosis, Examination, Examiner } from '../../lib/doctor.ts';
import { messageOf } from '../../lib/errors.ts';
import { podOfCgroup } from '../cgroup-layout.ts';
import { carryOut, type CarryOutDeps } from './carry-out.ts';
import { compare, type RemediedFinding } from './compare.ts';
import type { Found, Kind } from './inventory.ts';
import { findCgroups } from './probes/cgroups.ts';
import { findFolders, findMounts, findNetns } from './probes/folders.ts';
import { findAddresses, findBridges, findRules } from './probes/network.ts';
import { dataDirsHeld, dataDirsIn } from './probes/network-data.ts';
import { findProcesses } from './probes/processes.ts';
import { findAtRecordedPlaces } from './probes/recorded-places.ts';
import { findStored } from './probes/storage.ts';
import { findUnits } from './probes/units.ts';
import { mergeWritten, writtenDown, type WrittenDown } from './written-down.ts';

interface Probe {
  readonly what: string;
  readonly kinds: readonly Kind[];
  look(): Promise<Found[]>;
}

/** One at a time, and after what recovery releases. */
const LANE = 'orphans';
const FIX_TIMEOUT_MS = 120_000;

/** The runtime's half of `gantry doctor`: all that ledger, records and the machine say of this instance, side by side. */
export function runtimeExaminer(deps: CarryOutDeps): Examiner {
  return {
    examine: async (op) => {
      const before = writtenDown(deps.rt);
      const notices: string[] = [];
      const looked = new Set<Kind>();
      const found: Found[] = [];
      for (const probe of probes(op, deps, before)) {
        try {
          found.push(...(await probe.look()));
          for (const kind of probe.kinds) looked.add(kind);
        } catch (error) {
          op.signal.throwIfAborted();
          notices.push(`${probe.what} could not be looked at: ${messageOf(error)}`);
        }
      }
      const written = mergeWritten(before, writtenDown(deps.rt));
      try {
        found.push(...(await findAtRecordedPlaces(deps.rt, written.owned, found)));
      } catch (error) {
        op.signal.throwIfAborted();
        notices.push(`what is written down could not be looked for: ${messageOf(error)}`);
        looked.clear();
      }
      return examination(deps, compare({ ...written, found, looked }), notices);
    },
  };
}

function examination(deps: CarryOutDeps, findings: readonly RemediedFinding[], notices: string[]): Examination {
  const diagnoses = findings.map(({ finding, remedy }): Diagnosis => {
    if (remedy === undefined) return { finding };
    const fix = (op: Op): Promise<void> =>
      deps.rt.lanes.enqueue(LANE, {
        name: `put right ${finding.kind} ${finding.key}`,
        timeoutMs: FIX_TIMEOUT_MS,
        run: (own) => carryOut({ ...own, signal: AbortSignal.any([own.signal, op.signal]) }, deps, remedy),
      });
    return { finding, fix };
  });
  return { diagnoses, notices };
}

function probes(op: Op, { rt, iptables, storage, units }: CarryOutDeps, { known, owned }: WrittenDown): Probe[] {
  const { instance } = rt.settings;
  const ownedCgroups = new Set(owned.filter(({ kind }) => kind === 'cgroup').map(({ key }) => key));
  return [
    { what: 'processes', kinds: ['monitor', 'task'], look: () => findProcesses(rt) },
    {
      what: 'cgroups',
      kinds: ['cgroup'],
      look: () =>
        findCgroups(rt, (path) => ownedCgroups.has(path) || known.has(podOfCgroup(rt.settings, basename(path)) ?? '')),
    },
    {
      what: "systemd's units",
      kinds: ['systemd-unit'],
      look: () => findUnits(op, rt, units, (path) => ownedCgroups.has(path)),
    },
    { what: 'network namespaces', kinds: ['netns'], look: () => findNetns(rt) },
    { what: 'mounts', kinds: ['pin', 'tmpfs', 'rootfs'], look: () => findMounts(rt) },
    { what: 'folders', kinds: ['directory', 'bundle', 'exit-file'], look: () => findFolders(rt) },
    {
      what: 'addresses',
      kinds: ['cni'],
      look: async () => {
        const dirs = [...(await dataDirsIn(rt.settings.cniConfDir)), ...dataDirsHeld(rt)];
        return await findAddresses(rt.paths.ipam, dirs, (id) => known.has(id));
      },
    },
    { what: 'bridges', kinds: ['cni-bridge'], look: () => findBridges(instance) },
    { what: 'iptables rules', kinds: ['iptables-rule'], look: () => findRules(op, iptables, instance) },
    { what: 'snapshots and layers', kinds: ['snapshot'], look: () => findStored(rt.paths, storage) },
  ];
}
