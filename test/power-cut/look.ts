import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ContainerState, PodSandboxState } from '../../src/cri/gen/api.ts';
import { isKind, messageOf } from '../../src/lib/errors.ts';
import { eventually, isReady, op, type Gantryd } from '../support/gantryd.ts';
import type { Acknowledged, Record } from './record.ts';
import { BEGAN, codeOf, isOver, PAYLOAD, PAYLOAD_SUM, STEADY, ticksFile } from './workload.ts';

const NS_PER_MS = 1_000_000n;
/** /proc's uptime, the clock's first steps after a boot. */
const BOOT_TIME_SLACK_MS = 60_000;
const NOT_AN_ADDRESS = /^(last_reserved_ip|lock)/;

/** What was seen after a boot, for a person; and what was not as it had to be. */
export interface Look {
  readonly seen: string[];
  readonly violations: string[];
}

/** What only the runtime is to answer for: served alone first, before the agent brings anything new. */
export async function lookAtRuntime(daemon: Gantryd, record: Record, { seen, violations }: Look): Promise<void> {
  const wrong = (what: string): number => violations.push(what);
  const boots = (await record.read()).flatMap((entry) => (entry.kind === 'boot' ? [entry.atMs] : []));
  const { runtime } = daemon.cri;
  const { containers } = await eventually(
    () => runtime.listContainers(op, { filter: undefined }),
    (list) => list.containers.every(({ state }) => state !== ContainerState.CONTAINER_UNKNOWN),
    'no container is UNKNOWN',
  );
  let lost = 0;
  for (const { id, state } of containers) {
    // A removal that was under way is carried out meanwhile.
    const { status } = await runtime
      .containerStatus(op, { containerId: id, verbose: false })
      .catch((error: unknown) => {
        if (!isKind(error, 'NotFound')) throw error;
        return { status: undefined };
      });
    if (status === undefined || state === ContainerState.CONTAINER_CREATED) continue;
    const name = `container ${status.metadata?.name ?? '?'} (${id.slice(0, 12)})`;
    if (state === ContainerState.CONTAINER_RUNNING) wrong(`${name} is RUNNING after a boot`);
    if (status.finishedAt < status.startedAt) wrong(`${name}: finished before it began`);
    if (!/unknown/i.test(status.reason)) continue;
    lost++;
    if (!status.message.includes('restarted')) wrong(`${name}: the restart is not named: ${status.message}`);
    // One that is kept as a pod's last run may have ended boots ago.
    const offMs = Math.min(...boots.map((atMs) => Math.abs(Number(status.finishedAt / NS_PER_MS) - atMs)));
    if (offMs > BOOT_TIME_SLACK_MS) wrong(`${name}: its end is ${String(offMs)} ms off any boot's time`);
  }
  const { items } = await runtime.listPodSandbox(op, { filter: undefined });
  for (const { id, state } of items) {
    if (state !== PodSandboxState.SANDBOX_NOTREADY) wrong(`sandbox ${id} is READY after a boot`);
  }
  seen.push(`${String(containers.length)} containers (${String(lost)} unknown), ${String(items.length)} sandboxes`);
  const addresses = await eventually(
    () => addressesOf(daemon),
    (left) => left.length === 0,
    'no address is held',
  ).catch(messageOf);
  if (typeof addresses === 'string') wrong(addresses);
  seen.push(`${String(await lookAtLayers(daemon, wrong))} image layers whole`);
  const doctor = await daemon.cli(['doctor', '--runtime-endpoint', `unix://${daemon.root.criSocket}`]);
  if (doctor.code !== 0) wrong(`doctor: ${doctor.stdout}${doctor.stderr}`);
}

async function addressesOf({ root }: Gantryd): Promise<string[]> {
  const found: string[] = [];
  for (const folder of [join(root.data, 'cni'), join(root.state, 'cni'), root.cniDataDir]) {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])) {
      if (entry.isFile() && /^[0-9a-f]+[.:]/i.test(entry.name) && !NOT_AN_ADDRESS.test(entry.name))
        found.push(entry.name);
    }
  }
  return found;
}

/** Each layer that the store takes for whole holds what was packed into it. */
async function lookAtLayers({ root }: Gantryd, wrong: (what: string) => void): Promise<number> {
  const layers = join(root.data, 'layers');
  let whole = 0;
  for (const name of await readdir(layers)) {
    if (name.startsWith('.')) continue;
    const at = join(layers, name, 'fs');
    const sum = await readFile(join(at, PAYLOAD_SUM), 'utf8').catch(() => undefined);
    // The image that the pods run.
    if (sum === undefined && (await readFile(join(at, 'bin/busybox')).catch(() => undefined)) !== undefined) continue;
    const content = await readFile(join(at, PAYLOAD)).catch(() => Buffer.alloc(0));
    if (createHash('sha256').update(content).digest('hex') === sum) whole++;
    else wrong(`layer ${name} is torn`);
  }
  return whole;
}

/** What was acknowledged before the cut is true, and the pods go on by their restart policies. */
export async function lookAtPods(daemon: Gantryd, record: Record, { seen, violations }: Look): Promise<void> {
  const wrong = (what: string): number => violations.push(what);
  const all = await record.read();
  const gone = new Set(all.filter(({ kind }) => kind === 'gone').map(uidOf));
  const deleting = new Set(all.filter(({ kind }) => kind === 'deleting').map(uidOf));
  let checked = 0;
  for (const entry of all) {
    if (entry.kind !== 'created' && entry.kind !== 'ended') continue;
    const found = await daemon.pod(entry.pod);
    if (gone.has(entry.uid)) {
      if (found !== undefined) wrong(`pod ${entry.pod} is back after it was gone`);
      continue;
    }
    checked++;
    if (deleting.has(entry.uid)) {
      await deletePod(daemon, record, entry).catch((error: unknown) => wrong(messageOf(error)));
      gone.add(entry.uid);
    } else if (found?.metadata.uid !== entry.uid) {
      wrong(`pod ${entry.pod} had been ${entry.kind} and is not there`);
    } else if (entry.kind === 'ended') {
      if (codeOf(found) !== entry.code)
        wrong(`pod ${entry.pod} had ended with ${String(entry.code)}, now ${String(codeOf(found))}`);
    } else if (
      !all.some((other) => other.kind === 'ended' && other.uid === entry.uid) &&
      found.metadata.deletionTimestamp === undefined
    ) {
      await lookAtInterrupted(daemon, record, entry, wrong);
      gone.add(entry.uid);
    }
  }
  seen.push(`${String(checked)} pods as acknowledged`);
  await lookAtImages(daemon, all, wrong);
  await lookAtSteady(daemon, all, wrong, seen);
}

function uidOf(entry: Acknowledged): string {
  return 'uid' in entry ? entry.uid : '';
}

/**
 * It ran or was about to: restartPolicy Never makes it run at most once, and an end that nobody saw is unknown. A start that the cut came
 * before is told as that, where the agent is not there to ask for it again within 10 s.
 */
async function lookAtInterrupted(
  daemon: Gantryd,
  record: Record,
  entry: Extract<Acknowledged, { kind: 'created' }>,
  wrong: (what: string) => void,
): Promise<void> {
  const { pod: name, code } = entry;
  const isEndless = (await daemon.pod(name))?.spec.containers[0]?.command?.[2]?.includes('while') === true;
  const pod = await daemon.podWhen(name, (found) => isOver(found) || (isEndless && isReady(found)), 'over');
  const terminated = pod.status?.containerStatuses?.[0]?.state?.terminated;
  // The runtime's word, and the agent's where the runtime has not even the container any more.
  const isUnknown = terminated?.reason === 'Unknown' || terminated?.reason === 'ContainerStatusUnknown';
  const isNoStart = terminated?.reason === 'StartError' && terminated.message?.includes('cut short by a restart');
  if (isNoStart === true) {
    const { stdout } = await daemon.cli(['logs', name]);
    if (stdout.includes(BEGAN)) wrong(`pod ${name} began, and says ${JSON.stringify(terminated)}`);
  } else if (terminated !== undefined && !isUnknown && !isEndless && terminated.exitCode !== code) {
    wrong(`pod ${name} was to end with ${String(code)}, and says ${JSON.stringify(terminated)}`);
  }
  await deletePod(daemon, record, entry);
}

/** Again, where the cut came before the delete was carried out. */
async function deletePod(daemon: Gantryd, record: Record, { pod, uid }: { pod: string; uid: string }): Promise<void> {
  await record.add({ kind: 'deleting', pod, uid });
  await daemon.api.kube.delete(op, 'pods', { namespace: 'default', name: pod }).catch((error: unknown) => {
    if (!isKind(error, 'NotFound')) throw error;
  });
  await daemon.gone(pod);
  await record.add({ kind: 'gone', pod, uid });
}

async function lookAtImages(
  daemon: Gantryd,
  all: readonly Acknowledged[],
  wrong: (what: string) => void,
): Promise<void> {
  const listed = await daemon.gantry('image', 'ls');
  const removing = new Set(all.flatMap((entry) => (entry.kind === 'image-removing' ? [entry.name] : [])));
  for (const entry of all) {
    if (entry.kind !== 'image' || removing.has(entry.name)) continue;
    const repository = entry.name.slice(0, entry.name.lastIndexOf(':'));
    if (!listed.includes(repository)) wrong(`image ${entry.name} had been imported and is not there`);
  }
}

async function lookAtSteady(
  daemon: Gantryd,
  all: readonly Acknowledged[],
  wrong: (what: string) => void,
  seen: string[],
): Promise<void> {
  if (!all.some(({ kind }) => kind === 'ticks')) return;
  const before = Math.max(...all.map((entry) => (entry.kind === 'ticks' ? entry.count : 0)));
  const pod = await daemon.ready(STEADY);
  const now = await eventually(
    async () => (await readFile(ticksFile(daemon, pod), 'utf8').catch(() => '')).split('\n').length - 1,
    (count) => count > before,
    `pod ${STEADY} counts on from ${String(before)}`,
  ).catch(messageOf);
  if (typeof now === 'string') wrong(now);
  else
    seen.push(
      `${STEADY} counts on: ${String(before)} to ${String(now)}, restarts ${String(pod.status?.containerStatuses?.[0]?.restartCount)}`,
    );
  const { code, stdout } = await daemon.cli(['explain', 'pod', STEADY]);
  if (code !== 0 || stdout === '') wrong(`explain pod ${STEADY}: exit code ${String(code)}`);
}
