#!/bin/sh
# Makes this checkout ready: checks the machine, installs the system packages that are missing, then the npm packages.
# Everything is checked before anything is changed. A second run finds nothing to do and says nothing.
#
# usage: setup.sh start   what `npm start` needs (root, apt, overlayfs, cgroups)
#        setup.sh test    what `npm test` needs: as `start` when root, the npm packages alone otherwise
set -eu
purpose=${1:-start}
root=$(dirname "$(dirname "$(readlink -f "$0")")")
cd "$root"

fail() {
	echo "gantry: $1" >&2
	exit 1
}

case $(uname -s) in Linux) ;; *) fail "Linux is needed, this is $(uname -s)" ;; esac
case $(uname -m) in
	x86_64) arch=x64 ;;
	aarch64) arch=arm64 ;;
	*) fail "x86_64 or aarch64 is needed, this is $(uname -m)" ;;
esac
command -v node >/dev/null 2>&1 || fail "Node.js is missing: install it first (apt-get install nodejs npm)"
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 18 ] || fail "Node.js 18 or newer is needed to set up, found $(node --version): install a newer one (apt-get install nodejs)"
command -v npm >/dev/null 2>&1 || fail "npm is missing: install it first (apt-get install npm)"

as_root=no
[ "$(id -u)" -eq 0 ] && as_root=yes
if [ "$as_root" = no ] && [ "$purpose" = start ]; then
	fail "root is needed to run containers: try again as root (sudo npm start)"
fi

packages="crun runc conmon containernetworking-plugins iptables iproute2 catatonit busybox libatomic1 golang-github-containers-common"

# Whether a package is there; on a distribution without dpkg, whether what Gantry uses of it is.
installed() {
	if command -v dpkg-query >/dev/null 2>&1; then
		case $1 in
			# Debian's busybox and busybox-static stand in for each other.
			busybox) names="busybox busybox-static" ;;
			*) names=$1 ;;
		esac
		# shellcheck disable=SC2086 # a list of names
		dpkg-query -W -f '${Status}\n' $names 2>/dev/null | grep -q 'ok installed'
		return
	fi
	case $1 in
		containernetworking-plugins) [ -x /opt/cni/bin/bridge ] || [ -x /usr/lib/cni/bridge ] ;;
		iproute2) command -v ip >/dev/null 2>&1 ;;
		libatomic1) ldconfig -p 2>/dev/null | grep -q 'libatomic\.so\.1' ;;
		golang-github-containers-common) [ -f /usr/share/containers/seccomp.json ] ;;
		*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

# The v1 controllers and where they are mounted, one a line, or the whole of v2's.
cgroup_controllers() {
	if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
		tr ' ' '\n' </sys/fs/cgroup/cgroup.controllers
	else
		awk '$3 == "cgroup" { print $4 }' /proc/mounts | tr ',' '\n'
	fi
}

missing=
if [ "$as_root" = yes ]; then
	grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || true
	grep -qw overlay /proc/filesystems ||
		fail "this kernel has no overlayfs: load it (modprobe overlay) or boot a kernel that has it"
	awk '$3 ~ /^cgroup2?$/ { found = 1 } END { exit !found }' /proc/mounts ||
		fail "no usable cgroups: nothing is mounted on /sys/fs/cgroup (mount -t cgroup2 none /sys/fs/cgroup)"
	for controller in cpu memory pids; do
		cgroup_controllers | grep -qx "$controller" ||
			fail "no usable cgroups: the $controller controller is missing: boot with cgroup_enable=$controller, or give it to this container"
	done
	awk '$3 ~ /^cgroup2?$/ && $4 ~ /(^|,)ro(,|$)/ { found = 1 } END { exit !found }' /proc/mounts &&
		fail "no usable cgroups: they are mounted read-only (is this a container? It needs them writable)"
	# 1F90 is 8080, 0A is LISTEN. Later than this the runtime looks, when it makes the pod.
	if [ "$purpose" = start ] && [ ! -e /run/gantry/api.sock ] &&
		cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qE '^ *[0-9]+: [0-9A-F]+:1F90 [0-9A-F]+:0000 0A '; then
		fail "port 8080 of this machine, which the example serves its page on, is taken (ss -ltnp 'sport = 8080' says by whom): end that first"
	fi
	for package in $packages; do
		installed "$package" || missing="$missing $package"
	done
	[ -z "$missing" ] || command -v apt-get >/dev/null 2>&1 ||
		fail "apt-get is missing, so these have to be installed by hand first:$missing"
fi

if [ -n "$missing" ]; then
	echo "gantry: installing system packages (a minute or two):$missing"
	began=$(date +%s)
	log=$(mktemp)
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # a list of names
	if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		fail "apt-get could not install:$missing (its last words are above)"
	fi
	rm -f "$log"
	echo "gantry: system packages installed in $(($(date +%s) - began)) s"
fi

# npm's own stamp of what it installed tells whether the lockfile was carried out.
node26=node_modules/node-linux-$arch/bin/node
if [ ! -x "$node26" ] || [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
	echo "gantry: installing npm packages (half a minute)"
	began=$(date +%s)
	log=$(mktemp)
	if ! npm ci --no-audit --no-fund >"$log" 2>&1; then
		tail -n 15 "$log" >&2
		rm -f "$log"
		fail "npm ci failed (its last words are above)"
	fi
	rm -f "$log"
	[ -x "$node26" ] || fail "npm ci did not bring Node 26 ($node26): is the optional dependency node-linux-$arch left out by an npm setting?"
	touch node_modules/.package-lock.json
	echo "gantry: npm packages installed in $(($(date +%s) - began)) s"
fi
"$node26" --version >/dev/null 2>&1 ||
	fail "Node 26 does not start here: $("$node26" --version 2>&1 | head -n 1); on Debian and Ubuntu it needs libatomic1 (apt-get install libatomic1)"
