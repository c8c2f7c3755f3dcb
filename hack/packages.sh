#!/usr/bin/env bash
# Installs the Debian packages that the local cluster and the images need, and
# that this machine lacks. Where it cannot, as without root, it does nothing:
# whoever needs them then says what is missing.
set -euo pipefail
command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || exit 0
packages="make git curl ca-certificates runc iptables nftables conntrack socat ethtool iproute2 mmdebstrap mount util-linux"
lacking=""
for package in $packages; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || lacking="$lacking $package"
done
command -v npm >/dev/null || lacking="$lacking nodejs npm"
[ -n "$lacking" ] || exit 0
echo "installing Debian packages:$lacking" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $lacking >/dev/null
