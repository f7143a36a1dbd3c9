import { hugePagesResource } from '../../kube/huge-pages.ts';
import type { PodSpec } from '../../kube/objects.ts';
import { podHugePages } from './resources.ts';
import { appArmorOf } from './security-context.ts';

/** Why a pod can never run on this machine as it asks to: it is over before it begins. */
export interface Rejection {
  readonly reason: 'AppArmor' | 'OutOfHugePages';
  readonly message: string;
}

export interface HostAbilities {
  /** The kernel has it, and it is on. */
  readonly appArmor: boolean;
  /** Bytes of huge pages that there are, by the size of a page. */
  readonly hugePages: ReadonlyMap<number, number>;
}

/** What kubelet's admission refuses, in its words (its reason for huge pages has their size in it); undefined: nothing is in the way. Pure. */
export function rejectionOf(spec: PodSpec, host: HostAbilities): Rejection | undefined {
  const confined = spec.containers.some((container) => {
    const type = appArmorOf(spec, container)?.type;
    return type !== undefined && type !== 'Unconfined';
  });
  if (confined && !host.appArmor) {
    return { reason: 'AppArmor', message: 'Cannot enforce AppArmor: AppArmor is not enabled on the host' };
  }
  for (const [pageBytes, asked] of podHugePages(spec)) {
    const capacity = host.hugePages.get(pageBytes) ?? 0;
    if (asked <= capacity) continue;
    const message = `Node didn't have enough resource: ${hugePagesResource(pageBytes)}, requested: ${String(asked)}, capacity: ${String(capacity)}`;
    return { reason: 'OutOfHugePages', message };
  }
  return undefined;
}
