import { copyFile, mkdir, open, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fromNodeError } from '../../linux/errno.ts';
import type { ContainerMeta } from '../store/container-record.ts';
import { bundleFiles } from '../task/bundle-files.ts';
import type { Task } from '../task/task.ts';
import type { ContainerStatus } from './state.ts';

/** The folder that a checkpoint is made in. */
export interface CheckpointPlace {
  /** What comes into the archive. */
  readonly content: string;
  /** CRIU's images, in the content. */
  readonly imageDir: string;
  /** CRIU's log and figures. */
  readonly workDir: string;
  /** What the container has changed in its image, in the content. */
  readonly changes: string;
  /** The archive, until it has its name. */
  readonly archive: string;
}

export interface Checkpointed {
  readonly meta: ContainerMeta;
  readonly task: Task;
  readonly status: ContainerStatus;
  readonly nowMs: number;
}

/** What CRIU leaves beside its images and people want to read. */
const WORDS = ['dump.log', 'stats-dump'];

/** Makes the folder, for root alone: a container's memory has its secrets. Throws NotFound where there is no folder to make it in. */
export async function layOut(folder: string): Promise<CheckpointPlace> {
  const content = join(folder, 'content');
  const place: CheckpointPlace = {
    content,
    imageDir: join(content, 'checkpoint'),
    workDir: join(folder, 'work'),
    changes: join(content, 'rootfs-diff.tar'),
    archive: join(folder, 'archive.tar'),
  };
  try {
    for (const path of [folder, content, place.imageDir, place.workDir]) await mkdir(path, { mode: 0o700 });
  } catch (error) {
    throw fromNodeError(error, `folder ${folder} for the checkpoint`);
  }
  return place;
}

/** What the field's tools read beside the images (`checkpointctl`, `podman container restore`), under the names that they know. */
export async function writeDocuments(
  { content, workDir }: CheckpointPlace,
  { meta, task, status, nowMs }: Checkpointed,
): Promise<void> {
  const { image } = meta.facts;
  const description = {
    id: meta.id,
    name: meta.config.metadata?.name ?? '',
    rootfsImage: image.id,
    rootfsImageRef: image.ref,
    rootfsImageName: image.shown,
    runtime: task.runtime.name,
    createdTime: new Date(status.createdAtWallMs).toISOString(),
    checkpointedTime: new Date(nowMs).toISOString(),
  };
  await writeFile(join(content, 'config.dump'), `${JSON.stringify(description, null, 2)}\n`, { mode: 0o600 });
  await copyFile(bundleFiles(task.bundleDir).config, join(content, 'spec.dump'));
  for (const name of WORDS) await rename(join(workDir, name), join(content, name));
}

/** Gives the archive its name, in the place of an earlier one. */
export async function place(archive: string, location: string): Promise<void> {
  try {
    await rename(archive, location);
    const folder = await open(dirname(location));
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (error) {
    throw fromNodeError(error, `checkpoint ${location}`);
  }
}
