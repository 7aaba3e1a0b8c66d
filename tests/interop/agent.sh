#!/bin/busybox sh
# One connection is one command: a line with its time limit in seconds and the command, then its input. Its output goes
# back, and a last line has its exit code.
read -r limit command
/bin/busybox chroot /host /usr/bin/timeout -s KILL "$limit" /bin/sh -c "$command" 2>&1
printf "\nexit code %d\n" $?
