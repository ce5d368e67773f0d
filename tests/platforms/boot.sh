# Boots the Debian in $1 in the namespaces of systemd.sh: what systemd asks of whoever contains it
# (https://systemd.io/CONTAINER_INTERFACE), then systemd itself.
set -eu
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs none sys/kernel
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
# Not the machine's own devices, which systemd would mount and change.
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
for device in null zero full random urandom tty; do cp -a "/dev/$device" dev/; done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
# Neither modules nor the clock are this system's own.
pivot_root . mnt
exec chroot . sh -c 'umount -l /mnt
exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set -sys_module,-sys_time /lib/systemd/systemd'
