export const DEFAULT_APPARMOR_PROFILE = 'gantry-default';

/**
 * For the containers that ask for no profile of their own. Namespaces, capabilities and seccomp say what a container may do; this keeps its
 * root from what belongs to the whole machine even where one of those is missing: mounting, the kernel's knobs in /proc and /sys, its
 * memory, and other containers' processes. Nothing is included, so that it does not depend on the host's files.
 */
export const DEFAULT_APPARMOR_TEXT = `profile ${DEFAULT_APPARMOR_PROFILE} flags=(attach_disconnected,mediate_deleted) {
  file,
  network,
  capability,
  umount,

  # From whoever supervises the container, and among those in it.
  signal (receive),
  signal (send) peer=${DEFAULT_APPARMOR_PROFILE},
  ptrace peer=${DEFAULT_APPARMOR_PROFILE},

  deny mount,
  deny remount,
  deny pivot_root,

  deny /proc/{kcore,kmem,mem,sysrq-trigger,kpagecount,kpageflags} rwklx,
  deny /proc/{acpi,asound,bus,driver,fs,irq,scsi}/** wklx,
  deny /proc/sys/{abi,debug,dev,vm}/** wklx,
  deny /proc/sys/fs/{[^m]*,m[^q]*}{,/**} wklx,
  # Of what is below kernel, shm*, msg* and sem are the IPC namespace's own, and the names are the UTS namespace's.
  deny /proc/sys/kernel/{[^dhms]*,d[^o]*,h[^o]*,hotplug,m[^s]*,s[^eh]*}{,/**} wklx,

  deny /sys/{block,bus,class,dev,devices,firmware,hypervisor,kernel,module,power}/** wklx,
  deny /sys/fs/{[^c]*,c[^g]*}/** wklx,
  deny /sys/kernel/security/** rwklx,
}
`;
