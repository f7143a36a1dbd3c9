import { HangSafe } from '../linux/hang-safe.ts';
import { Mounts } from '../linux/mounts.ts';
import { Namespaces } from '../linux/namespaces.ts';
import { SafeRemove } from '../linux/safe-remove.ts';
import type { Groundwork } from './groundwork.ts';

/** The threads and helper processes that call the kernel for us. None of them is started before there is something to do. */
export interface KernelCalls {
  readonly hangSafe: HangSafe;
  readonly mounts: Mounts;
  readonly pins: Namespaces;
  readonly remover: SafeRemove;
  close(): void;
}

export function openKernelCalls({ clock, faults }: Groundwork): KernelCalls {
  const hangSafe = new HangSafe({ clock });
  const pins = new Namespaces({ clock, faults });
  const remover = new SafeRemove({ clock, faults });
  return {
    hangSafe,
    mounts: new Mounts({ clock, hangSafe }),
    pins,
    remover,
    close: () => {
      hangSafe.close();
      pins.close();
      remover.close();
    },
  };
}
