#!/bin/busybox sh
# The first process of a whole machine: mounts its root, a folder of the host's, and gives way to the init that is there.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
# The root needs no more than these. The machine's own udev and modprobe load the others.
while read -r module; do
  $b insmod "/modules/$module" || echo "insmod $module failed"
  [ "$module" != 9p.ko ] || break
done </modules/list
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose root /host
# eth0 is for commands. The machine's own interface takes its name.
$b ip link set eth0 name commands
$b ip link set eth1 name eth0
while read -r interface address address6; do
  case $interface in eth0) interface=commands ;; eth1) interface=eth0 ;; esac
  $b ip addr add "$address" dev "$interface"
  [ -z "$address6" ] || $b ip -6 addr add "$address6" dev "$interface"
  $b ip link set "$interface" up
done </addresses
echo "guest is ready"
$b umount /proc /sys
$b mount --move /dev /host/dev
exec $b switch_root /host /sbin/init
