import { createHash, randomBytes } from 'node:crypto';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pod } from '../../src/kube/objects.ts';
import { Random } from '../soak/random.ts';
import { op, podOf, type Gantryd } from '../support/gantryd.ts';
import { tarOf } from '../support/tar.ts';
import type { Record } from './record.ts';

export const STEADY = 'steady';
/** In a layer of each image: content, and what its sum has to be. */
export const PAYLOAD = 'payload';
export const PAYLOAD_SUM = 'payload.sha256';

const TICKS_EVERY_MS = 1_000;
const IMAGES_KEPT = 2;
const PAYLOAD_BYTES = 4 << 20;
const LOOK_AGAIN_MS = 200;
/** What each pod that ends writes first of all. */
export const BEGAN = 'began';

/** Does everything at once until the power goes: a pod that counts, pods that end, pods that are ended, images that come and go. */
export async function work(daemon: Gantryd, record: Record, generation: number): Promise<never> {
  if ((await daemon.pod(STEADY)) === undefined) await daemon.apply(steadyPod());
  const random = new Random(randomBytes(4).readUInt32LE());
  await Promise.all([
    countTicks(daemon, record),
    endless((n) => runPod(daemon, record, `a-${String(generation)}-${String(n)}`, random)),
    endless((n) => runPod(daemon, record, `b-${String(generation)}-${String(n)}`, random)),
    endless((n) => passImage(daemon, record, generation, n)),
  ]);
  throw new Error('this does not end');
}

async function endless(turn: (n: number) => Promise<void>): Promise<never> {
  for (let n = 0; ; n++) await turn(n);
}

function steadyPod(): object {
  const script =
    'trap "exit 0" TERM; cd /data; n=$(wc -l < ticks || echo 0); while :; do n=$((n+1)); echo $n >> ticks; sleep 0.2; done';
  return podOf(STEADY, [{ script, volumeMounts: [{ name: 'data', mountPath: '/data' }] }], {
    restartPolicy: 'Always',
    volumes: [{ name: 'data', emptyDir: {} }],
  });
}

export function ticksFile(daemon: Gantryd, { metadata }: Pod): string {
  return join(daemon.root.podsDir, metadata.uid, 'volumes/kubernetes.io~empty-dir/data/ticks');
}

async function countTicks(daemon: Gantryd, record: Record): Promise<never> {
  const pod = await daemon.podWhen(STEADY, ({ status }) => status?.phase === 'Running', 'running');
  const path = ticksFile(daemon, pod);
  for (;;) {
    await sleep(TICKS_EVERY_MS);
    const file = await open(path, 'r').catch(() => undefined);
    if (file === undefined) continue;
    try {
      const count = (await file.readFile('utf8')).split('\n').length - 1;
      await file.sync();
      await record.add({ kind: 'ticks', count });
    } finally {
      await file.close();
    }
  }
}

/** One that ends by itself, or that is deleted while it runs; the first kind stays for the next boot to see, now and then. */
async function runPod(daemon: Gantryd, record: Record, name: string, random: Random): Promise<void> {
  const code = random.pick([0, 1, 3, 42, 143]);
  const isEnded = random.chance(0.4);
  const script = isEnded
    ? 'trap "sleep 1; exit 0" TERM; while :; do sleep 0.1; done'
    : `sleep ${random.pick(['0.1', '0.5', '2', '6'])}; exit ${String(code)}`;
  const { metadata } = await daemon.api.kube.create(op, 'pods', {
    ...(podOf(name, [{ script: `echo ${BEGAN}; ${script}` }], { restartPolicy: 'Never' }) as Pod),
  });
  const pod = { pod: name, uid: metadata.uid };
  await record.add({ kind: 'created', ...pod, code });
  if (isEnded) {
    await sleep(random.between(0, 8_000));
  } else {
    await daemon.podWhen(name, isOver, 'over');
    await record.add({ kind: 'ended', ...pod, code: codeOf(await daemon.pod(name)) ?? -1 });
    if (random.chance(0.3)) return;
  }
  await record.add({ kind: 'deleting', ...pod });
  await daemon.api.kube.delete(op, 'pods', { namespace: 'default', name });
  await daemon.gone(name);
  await record.add({ kind: 'gone', ...pod });
}

export function isOver(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
}

export function codeOf(pod: Pod | undefined): number | undefined {
  return pod?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode;
}

async function passImage(daemon: Gantryd, record: Record, generation: number, n: number): Promise<void> {
  const nameOf = (turn: number): string => `localhost/cut/image-${String(generation)}-${String(turn)}:1`;
  const content = randomBytes(PAYLOAD_BYTES);
  const tar = join(daemon.root.dir, 'image.tar');
  const sum = createHash('sha256').update(content).digest('hex');
  await writeFile(tar, await tarOf({ [PAYLOAD]: content, [PAYLOAD_SUM]: sum }));
  const { code } = await daemon.cli(['image', 'import', '--rootfs', tar, nameOf(n)]);
  if (code === 0) await record.add({ kind: 'image', name: nameOf(n) });
  if (n >= IMAGES_KEPT) {
    await record.add({ kind: 'image-removing', name: nameOf(n - IMAGES_KEPT) });
    await daemon.cli(['image', 'rm', nameOf(n - IMAGES_KEPT)]);
  }
  await sleep(LOOK_AGAIN_MS);
}
