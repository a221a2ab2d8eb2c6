#!/bin/busybox sh
# The guest's first process: loads virtio, then answers the commands that come over the serial console.
# A command is a line "<id> <shell command>"; its answer is "<<id", what it prints, ">>id <exit status>".
# No prompt and no echo, so that nothing on the line is there by accident.

/bin/busybox mkdir -p /proc /sys /dev /tmp /run /sbin /usr/bin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
echo 1 > /proc/sys/kernel/printk

while read -r module; do
	insmod "/modules/$module.ko"
done < /modules/order

ip link set lo up
# The other guest's address stays known over a migration; it is the switch that must learn the new port.
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad

# setsid gives the console to the loop as its terminal.
exec setsid sh -c 'exec sh /answer.sh < /dev/ttyS0 > /dev/ttyS0 2>&1'
