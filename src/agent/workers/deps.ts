import type { Op } from '../../lib/abort.ts';
import type { Clock } from '../../lib/clock.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { RuntimeService } from '../../cri/services.ts';
import type { Story } from '../events/story.ts';
import type { ImagePuller } from '../images/image-puller.ts';
import type { RuntimeFeatures } from '../node/runtime-features.ts';
import type { PodPaths } from '../pods/paths.ts';
import type { StatusWriter } from '../status/status-writer.ts';
import type { DnsConfig } from '../sync/dns.ts';
import type { NodeResources } from '../sync/env.ts';
import type { UserNamespaces } from '../user-namespaces/user-namespaces.ts';
import type { TreeRemover } from '../volumes/plugin.ts';
import type { VolumeManager } from '../volumes/volume-manager.ts';

/** What every pod worker works with. */
export interface WorkerDeps {
  readonly runtime: RuntimeService;
  readonly images: ImagePuller;
  readonly kube: KubeClient;
  readonly volumes: Pick<VolumeManager, 'ofPod' | 'adopt' | 'teardownOf' | 'poke'>;
  readonly status: StatusWriter;
  readonly story: Story;
  readonly clock: Clock;
  readonly op: Op;
  readonly paths: PodPaths;
  readonly userNamespaces: Pick<UserNamespaces, 'of'>;
  readonly remover: TreeRemover;
  readonly node: NodeFacts;
  readonly bootId: string;
  /** Labels what this agent makes. */
  readonly agentId: string;
  /** A pod's own cgroup. */
  readonly podCgroup: (podUid: string) => string;
  readonly seccompProfileRoot: string;
}

export interface NodeFacts extends NodeResources {
  readonly nodeName: string;
  /** Bytes of huge pages that the machine has set aside, by the size of a page. */
  readonly hugePages: ReadonlyMap<number, number>;
  hostIps(): readonly string[];
  /** The scheme of container ids in statuses. */
  runtimeName(): string;
  runtimeFeatures(): RuntimeFeatures;
  /** Whether the kernel has AppArmor, and it is on. */
  hasAppArmor(): Promise<boolean>;
  /** The host's resolv.conf, and what a resolver on its loopback asks in turn. */
  hostDns(): Promise<{ readonly host: DnsConfig; readonly upstream: DnsConfig | undefined }>;
  /** The host's /etc/hosts. */
  hostsFile(): Promise<string>;
}
