import type { PodSpec } from '../../kube/objects.ts';
import { appArmorOf } from './security-context.ts';

/** Why a pod can never run on this machine as it asks to: it is over before it begins. */
export interface Rejection {
  readonly reason: 'AppArmor';
  readonly message: string;
}

export interface HostAbilities {
  /** The kernel has it, and it is on. */
  readonly appArmor: boolean;
}

/** What kubelet's admission refuses, in its words; undefined: nothing is in the way. Pure. */
export function rejectionOf(spec: PodSpec, host: HostAbilities): Rejection | undefined {
  const confined = spec.containers.some((container) => {
    const type = appArmorOf(spec, container)?.type;
    return type !== undefined && type !== 'Unconfined';
  });
  if (confined && !host.appArmor) {
    return { reason: 'AppArmor', message: 'Cannot enforce AppArmor: AppArmor is not enabled on the host' };
  }
  return undefined;
}
