import type { Story, StoryPod } from '../events/story.ts';
import type { PodPaths } from '../pods/paths.ts';
import { readPodIdentity } from './pod-directory.ts';
import type { VolumeNews } from './reconciler.ts';

export interface VolumeStoryDeps {
  readonly story: Story;
  readonly paths: PodPaths;
  readonly podOf: (podUid: string) => StoryPod | undefined;
  readonly wake: (podUid: string) => void;
}

/** Tells what happened to a volume, and wakes its pod. */
export async function tellVolumeNews(news: VolumeNews, deps: VolumeStoryDeps): Promise<void> {
  const { story } = deps;
  switch (news.kind) {
    case 'mounted': {
      const { pod, volume, plugin } = news.volume;
      if (!news.refreshed) {
        story.tell({
          pod,
          what: 'volume.mounted',
          message: `volume ${volume.name} (${plugin.name}) is ready`,
          outcome: 'ok',
          durationMs: news.durationMs,
        });
      }
      deps.wake(pod.uid);
      return;
    }
    case 'mount-failed': {
      const { pod, volume } = news.volume;
      const message = `MountVolume.SetUp failed for volume "${volume.name}" : ${news.message}`;
      const event = { type: 'Warning', reason: 'FailedMount' } as const;
      if (news.isNew) story.tell({ pod, what: 'volume.mount-failed', message, outcome: 'failed', event });
      deps.wake(pod.uid);
      return;
    }
    case 'unmounted': {
      const { podUid, name, pluginName, blocked } = news.volume;
      deps.wake(podUid);
      const pod = deps.podOf(podUid) ?? (await nameOnDisk(deps.paths, podUid));
      story.tell({
        pod,
        what: 'volume.torn-down',
        message: `volume ${name} (${pluginName}) is torn down`,
        ...(blocked === undefined
          ? {}
          : { why: `what blocked it is gone, after ${String(blocked.attempts)} attempts` }),
        outcome: 'ok',
        durationMs: news.durationMs,
      });
      return;
    }
    case 'blocked': {
      const { podUid, name } = news.volume;
      deps.wake(podUid);
      if (!news.isNew) return;
      const pod = deps.podOf(podUid) ?? (await nameOnDisk(deps.paths, podUid));
      story.tell({
        pod,
        what: 'volume.teardown-blocked',
        message: `Teardown of volume "${name}" is blocked: ${news.block.message}`,
        outcome: 'blocked',
        data: { blockers: news.block.blockers },
        event: { type: 'Warning', reason: 'TeardownBlocked' },
      });
    }
  }
}

async function nameOnDisk(paths: PodPaths, uid: string): Promise<StoryPod> {
  return (await readPodIdentity(paths, uid)) ?? { uid, namespace: '', name: '' };
}
