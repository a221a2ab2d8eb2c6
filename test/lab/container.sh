# Builds a container's root and becomes its program. Runs as the first process of new mount, UTS and pid namespaces;
# everything it makes goes with them.
#   container.sh DIRECTORY HOSTNAME UID GID PROGRAM [ARGUMENT...]
# DIRECTORY holds `root` (empty), `mounts` (lines: rw|ro, source, path, tab separated), `hugepages` (the size of
# those at /dev/hugepages), `root-mode` (rw|ro) and gets `pid`.
set -e

directory=$1 hostname=$2 uid=$3 gid=$4
shift 4
root=$directory/root

# /proc is still the machine's, so this is the pid that the machine knows.
read -r pid _ < /proc/self/stat

mount --make-rprivate /
mount -t tmpfs -o mode=755,size=256m root "$root"
cd "$root"
mkdir -p usr etc dev/net dev/pts dev/shm dev/hugepages proc sys run tmp var/lib var/log var/cache var/tmp root
chmod 1777 tmp var/tmp
ln -s ../run var/run
for name in bin sbin lib lib32 lib64 libx32; do
	if [ -L "/$name" ]; then
		ln -s "$(readlink "/$name")" "$name"
	elif [ -d "/$name" ]; then
		mkdir "$name"
		mount --rbind -o ro "/$name" "$name"
	fi
done
mount --rbind /usr usr
mount -o remount,bind,ro usr
for name in alternatives group host.conf hosts ld.so.cache ld.so.conf ld.so.conf.d localtime nsswitch.conf passwd \
	protocols sasl2 services ssl; do
	if [ -e "/etc/$name" ]; then cp -a "/etc/$name" etc/; fi
done

for name in null zero full random urandom net/tun; do
	if [ -e "/dev/$name" ]; then
		touch "dev/$name"
		mount --bind "/dev/$name" "dev/$name"
	fi
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=1777 shm dev/shm
# One size only, as a pod has whose emptyDir is of that size: libvirt takes pages from the mount that it finds.
size=$(cat "$directory/hugepages")
mount -t hugetlbfs -o "mode=1777,pagesize=$size" hugetlbfs dev/hugepages
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys

while IFS='	' read -r mode source path; do
	if [ -d "$source" ]; then
		mkdir -p "$root$path"
	else
		mkdir -p "$(dirname "$root$path")"
		touch "$root$path"
	fi
	mount --rbind "$source" "$root$path"
	if [ "$mode" = ro ]; then mount -o remount,bind,ro "$root$path"; fi
done < "$directory/mounts"

root_mode=$(cat "$directory/root-mode")
hostname "$hostname"
# Opened now: behind the new root the machine's files are out of reach.
exec 3> "$directory/pid"
mkdir .machine
pivot_root . .machine
cd /
umount -l /.machine
rmdir /.machine
if [ "$root_mode" = ro ]; then mount -o remount,bind,ro /; fi
echo "$pid" >&3
exec 3>&-

if [ "$uid" = 0 ]; then exec "$@"; fi
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
	--pdeathsig KILL -- "$@"
