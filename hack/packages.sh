#!/usr/bin/env bash
# Installs the Debian packages that the local cluster and the images need, and
# that this machine lacks. Where it cannot, as without root, it does nothing:
# whoever needs them then says what is missing. No service of this machine is
# started: of openssh-server the cluster needs the program alone. Further packages
# may be named as arguments.
set -euo pipefail
command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || exit 0
packages="make git curl ca-certificates runc iptables nftables conntrack socat ethtool iproute2 mmdebstrap mount util-linux python3 python3-bottle python3-cheroot python3-requests python3-pip $*"
lacking=""
for package in $packages; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || lacking="$lacking $package"
done
sshd=no
command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || sshd=yes
[ "$sshd" = no ] || lacking="$lacking openssh-server"
command -v npm >/dev/null || lacking="$lacking nodejs npm"
[ -n "$lacking" ] || exit 0
echo "installing Debian packages:$lacking" >&2
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ]; then
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
fi
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $lacking >/dev/null
# Nor at the next start of the machine, if it was us who brought sshd here. What
# is disabled stays so when the package is updated.
if [ "$sshd" = yes ]; then
	for unit in ssh.service ssh.socket sshd.service; do
		deb-systemd-helper disable "$unit" >/dev/null 2>&1 || true
	done
	! command -v update-rc.d >/dev/null || update-rc.d ssh disable >/dev/null 2>&1 || true
fi
