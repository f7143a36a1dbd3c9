import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ContainerConfig, NamespaceMode, PodSandboxConfig, type ContainerStatus } from '../../src/cri/gen/api.ts';
import type { TempRoot } from '../support/temp-root.ts';
import { IGNORED, planContainer, READY, type ContainerPlan } from './container-plan.ts';
import { Violation, type Kubelet } from './kubelet.ts';
import { linesOf, linesLost } from './log-lines.ts';
import type { Random } from './random.ts';
import type { SoakTally } from './tally.ts';

export const IMAGE = 'localhost/soak/busybox:1';

const READY_WITHIN_MS = 300_000;
const LOOK_AGAIN_MS = 50;
const MAX_ATTEMPTS = 30;

export interface SoakPodDeps {
  readonly kubelet: Kubelet;
  readonly tally: SoakTally;
  readonly root: TempRoot;
}

/** Runs one pod from nothing to nothing and holds everything that is seen of it against the plan. Never throws. */
export async function soakPod(deps: SoakPodDeps, random: Random, name: string): Promise<void> {
  const { kubelet, tally } = deps;
  const network = random.chance(0.3) ? NamespaceMode.POD : NamespaceMode.NODE;
  const config = podConfig(deps.root, name, network, random.chance(0.5));
  const plans = Array.from({ length: random.between(1, 3) }, (_, index) => planContainer(random, `c${String(index)}`));
  const fail = (error: unknown): void => {
    const words = error instanceof Violation ? error.message : error instanceof Error ? error.stack : String(error);
    tally.violations.push(`${name}: ${words ?? ''}`);
  };
  try {
    const podSandboxId = await kubelet.runPodSandbox(config);
    await Promise.all(
      plans.map((plan) =>
        soakContainer(deps, podSandboxId, config, plan).catch((error: unknown) => {
          fail(new Error(`${plan.kind} ${plan.name}: ${error instanceof Error ? error.message : String(error)}`));
        }),
      ),
    );
    await kubelet.endPod(podSandboxId);
    const left = await kubelet.left(podSandboxId);
    if (left.length > 0) fail(new Violation(`removed, and still listed: ${left.join(', ')}`));
    tally.pods++;
  } catch (error) {
    fail(error);
  }
}

async function soakContainer(
  { kubelet, tally, root }: SoakPodDeps,
  podSandboxId: string,
  sandboxConfig: PodSandboxConfig,
  plan: ContainerPlan,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const config = containerConfig(plan, attempt);
    const logPath = join(sandboxConfig.logDirectory, config.logPath);
    const containerId = await kubelet.createContainer(podSandboxId, sandboxConfig, config);
    if (!(await kubelet.startContainer(containerId))) {
      const said = await readFile(logPath, 'utf8').catch(() => '');
      if (said !== '') throw new Violation(`its start was undone, but it ran: ${said.slice(0, 200)}`);
      if (attempt === MAX_ATTEMPTS) throw new Violation(`not started within ${MAX_ATTEMPTS} attempts`);
      continue;
    }
    if (plan.stop !== undefined) {
      await saysReady(logPath);
      await sleep(plan.stop.afterMs);
      await kubelet.stopContainer(containerId, plan.stop.graceSeconds);
    }
    const status = await kubelet.ended(containerId);
    tally.containers++;
    checkStatus(tally, plan, status, `${containerId.slice(0, 12)} in ${root.dir}`);
    await checkLog(tally, plan, logPath);
    if (plan.removeItself) await kubelet.removeContainer(containerId);
    else {
      const again = await kubelet.status(containerId);
      if (again.exitCode !== status.exitCode || again.finishedAt !== status.finishedAt) {
        throw new Violation(`told two ends: ${endOf(status)} and ${endOf(again)}`);
      }
    }
    return;
  }
}

function endOf({ exitCode, reason, finishedAt }: ContainerStatus): string {
  return `${exitCode} ${reason} at ${finishedAt}`;
}

async function saysReady(logPath: string): Promise<void> {
  const endMs = performance.now() + READY_WITHIN_MS;
  while (!linesOf(await readFile(logPath, 'utf8').catch(() => '')).stdout.includes(READY)) {
    if (performance.now() > endMs) throw new Violation(`does not say that it is ready`);
    await sleep(LOOK_AGAIN_MS);
  }
}

function checkStatus(tally: SoakTally, plan: ContainerPlan, status: ContainerStatus, where: string): void {
  const wrong: string[] = [];
  if (status.reason === 'Unknown') tally.unknownCodes++;
  else if (status.exitCode !== plan.exitCode) tally.wrongCodes++;
  if (status.reason === 'Unknown' || status.exitCode !== plan.exitCode) {
    wrong.push(`ended with ${endOf(status)}, not with ${plan.exitCode} (${status.message})`);
  }
  const { createdAt, startedAt, finishedAt } = status;
  if (startedAt === 0n || finishedAt < startedAt || startedAt < createdAt) {
    tally.wrongTimes++;
    wrong.push(`created ${createdAt}, started ${startedAt}, finished ${finishedAt}`);
  }
  if (wrong.length > 0) throw new Violation(`${where}: ${wrong.join('; ')}`);
}

async function checkLog(tally: SoakTally, plan: ContainerPlan, logPath: string): Promise<void> {
  const { stdout, stderr } = linesOf(await readFile(logPath, 'utf8').catch(() => ''));
  tally.lines += stdout.length + stderr.length;
  const said = stdout.filter((line) => line !== IGNORED);
  const lost = linesLost(plan.stdout, said) + linesLost(plan.stderr, stderr);
  if (lost === 0) return;
  tally.lostLines += lost;
  throw new Violation(
    `${lost} lines of ${logPath} are not as said: ${stdout.length} of ${plan.stdout.length} on stdout, ${stderr.length} of ${plan.stderr.length} on stderr`,
  );
}

function podConfig(root: TempRoot, name: string, network: NamespaceMode, cgroup: boolean): PodSandboxConfig {
  return PodSandboxConfig.fromPartial({
    metadata: { name, namespace: 'soak', uid: `uid-${name}`, attempt: 0 },
    hostname: name,
    logDirectory: join(root.logRoot, name),
    linux: {
      cgroupParent: cgroup ? `${root.cgroupParent}/pod-${name}` : '',
      securityContext: {
        namespaceOptions: { network, pid: NamespaceMode.CONTAINER, ipc: NamespaceMode.POD },
      },
    },
  });
}

function containerConfig(plan: ContainerPlan, attempt: number): ContainerConfig {
  return ContainerConfig.fromPartial({
    metadata: { name: plan.name, attempt },
    image: { image: IMAGE },
    command: ['/bin/sh', '-c', plan.script],
    logPath: `${plan.name}/${attempt}.log`,
  });
}
