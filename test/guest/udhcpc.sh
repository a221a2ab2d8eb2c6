#!/bin/busybox sh
# What busybox' DHCP client calls with what it was given in variables: applies it, and prints it.

[ "$1" = bound ] || exit 0
# Link MTU, address, routes without their classful form, default route where there is one.
ip link set "$interface" mtu "${mtu:-1500}"
ip address replace "$ip/$mask" dev "$interface"
set -- $staticroutes
while [ -n "$2" ]; do
	ip route replace "$1" via "$2" dev "$interface"
	shift 2
done
[ -z "$router" ] || ip route replace default via "${router%% *}" dev "$interface"
echo "given $ip/$mask by $serverid"
