#!/bin/sh
# usage: boot.sh BOOT_ID_FILE COMMAND...    (the first process of new mount, process and network namespaces)
# What a machine has right after its boot: an empty /run, a boot id of its own, no process, no link but lo.
# Not exec: who is first here has to reap what others leave behind.
set -eu
mount --bind "$1" /proc/sys/kernel/random/boot_id
mount -t tmpfs tmpfs /run
# /sys shows the links of the network namespace that it was mounted in.
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
umount -l /run/cgroup
ip link set lo up
shift
"$@"
