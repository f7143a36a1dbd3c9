import type { SeccompProfile, SeccompRule } from './seccomp-profile.ts';

const EPERM = 1;
const ENOSYS = 38;
/** Each flag of clone that makes a namespace: the user namespace opens the way to all the others. */
const CLONE_NEW = [0x10000000, 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000, 0x02000000];

/** Refused unless the container has the capability that the kernel wants for it anyway. */
function deny(names: readonly string[], ...unless: readonly string[]): SeccompRule {
  return {
    names,
    action: 'SCMP_ACT_ERRNO',
    errnoRet: EPERM,
    ...(unless.length > 0 ? { excludes: { caps: unless } } : {}),
  };
}

/**
 * For a host without the distribution's default profile: all is allowed but what changes the machine as a whole, or has
 * often been a way out of a container. Coarser than the real one, which is a list of what is allowed.
 */
export const FALLBACK_SECCOMP_PROFILE: SeccompProfile = {
  defaultAction: 'SCMP_ACT_ALLOW',
  archMap: [
    { architecture: 'SCMP_ARCH_X86_64', subArchitectures: ['SCMP_ARCH_X86', 'SCMP_ARCH_X32'] },
    { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: ['SCMP_ARCH_ARM'] },
  ],
  syscalls: [
    deny([
      'add_key',
      'keyctl',
      'request_key',
      'userfaultfd',
      'nfsservctl',
      'vm86',
      'vm86old',
      'uselib',
      'ustat',
      'sysfs',
      '_sysctl',
    ]),
    deny(['io_uring_setup', 'io_uring_enter', 'io_uring_register']),
    deny(['kexec_load', 'kexec_file_load', 'reboot'], 'CAP_SYS_BOOT'),
    deny(['init_module', 'finit_module', 'delete_module', 'create_module', 'query_module'], 'CAP_SYS_MODULE'),
    deny(['open_by_handle_at'], 'CAP_DAC_READ_SEARCH'),
    deny(
      [
        ...[
          'mount',
          'umount',
          'umount2',
          'pivot_root',
          'mount_setattr',
          'move_mount',
          'open_tree',
          'fsopen',
          'fsconfig',
        ],
        ...['fsmount', 'fspick', 'setns', 'unshare', 'swapon', 'swapoff', 'quotactl', 'quotactl_fd', 'lookup_dcookie'],
        ...['fanotify_init', 'bpf', 'perf_event_open'],
      ],
      'CAP_SYS_ADMIN',
    ),
    // A masked comparison says "equals", not "has any of": a rule for each flag.
    ...CLONE_NEW.map((flag) => ({
      ...deny(['clone'], 'CAP_SYS_ADMIN'),
      args: [{ index: 0, value: flag, valueTwo: flag, op: 'SCMP_CMP_MASKED_EQ' }],
    })),
    // Its flags lie in memory, where no filter sees them; the C library goes on with clone.
    { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS, excludes: { caps: ['CAP_SYS_ADMIN'] } },
    deny(['acct'], 'CAP_SYS_PACCT'),
    deny(['iopl', 'ioperm'], 'CAP_SYS_RAWIO'),
    deny(
      ['settimeofday', 'stime', 'clock_settime', 'clock_settime64', 'clock_adjtime', 'clock_adjtime64'],
      'CAP_SYS_TIME',
    ),
    deny(['vhangup'], 'CAP_SYS_TTY_CONFIG'),
    deny(['kcmp', 'process_vm_readv', 'process_vm_writev', 'process_madvise'], 'CAP_SYS_PTRACE'),
  ],
};
