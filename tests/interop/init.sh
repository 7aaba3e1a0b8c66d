#!/bin/busybox sh
# The guest's first process: loads the modules, mounts the host's root read-only, sets the ports up and serves commands.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module" || echo "insmod $module failed"; done </modules/list
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose root /host
$b mount --bind /proc /host/proc
$b mount --bind /sys /host/sys
$b mount --bind /dev /host/dev
$b mount -t tmpfs tmpfs /host/run
$b mkdir -p /host/dev/hugepages
$b mount -t hugetlbfs hugetlbfs /host/dev/hugepages
$b ip link set lo up
# eth0 is for commands, the others are wires; `addresses` has a line for each: interface, IPv4, IPv6.
while read -r interface address address6; do
  echo 0 >"/proc/sys/net/ipv6/conf/$interface/accept_dad"
  $b ip addr add "$address" dev "$interface"
  [ -z "$address6" ] || $b ip -6 addr add "$address6" dev "$interface"
  $b ip link set "$interface" up
  case $interface in eth[1-9]) $b chroot /host rdma link add "rxe${interface#eth}" type rxe netdev "$interface" ;; esac
done </addresses
echo "guest is ready"
exec $b nc -ll -p 7000 -e /agent
