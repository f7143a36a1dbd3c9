import { HangSafe } from '../linux/hang-safe.ts';
import { Mounts } from '../linux/mounts.ts';
import { NamespaceSockets } from '../linux/namespace-sockets.ts';
import { Namespaces } from '../linux/namespaces.ts';
import { PacketSockets } from '../linux/packet-sockets.ts';
import { SafeRemove } from '../linux/safe-remove.ts';
import type { Groundwork } from './groundwork.ts';

/** The threads and helper processes that call the kernel for us. None of them is started before there is something to do. */
export interface KernelCalls {
  readonly hangSafe: HangSafe;
  readonly mounts: Mounts;
  readonly pins: Namespaces;
  readonly remover: SafeRemove;
  readonly packets: PacketSockets;
  readonly namespaceSockets: NamespaceSockets;
  close(): void;
}

export function openKernelCalls({ clock, faults }: Groundwork): KernelCalls {
  const hangSafe = new HangSafe({ clock });
  const pins = new Namespaces({ clock, faults });
  const remover = new SafeRemove({ clock, faults });
  const packets = new PacketSockets();
  const namespaceSockets = new NamespaceSockets({ clock });
  return {
    hangSafe,
    mounts: new Mounts({ clock, hangSafe }),
    pins,
    remover,
    packets,
    namespaceSockets,
    close: () => {
      hangSafe.close();
      pins.close();
      remover.close();
      packets.close();
      namespaceSockets.close();
    },
  };
}
