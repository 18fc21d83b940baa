# Makes a scratch root from read-only system folders and enters it without any right over it.
# Runs as root of a user namespace of its own, with a mount, pid, network and ipc namespace.
# Arguments: the folder of the root, the folder of the programs, then the command to run inside.
set -eu
root=$1 programs=$2
shift 2
mount -t tmpfs -o size=512m,strictatime,nosuid,nodev,mode=755 oracle "$root"
cd "$root"
mkdir -p usr etc dev proc tmp old home/u work oracle/programs oracle/bin oracle/real
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$name" ]; then
    cp -P "/$name" .
  elif [ -d "/$name" ]; then
    mkdir "$name"
    mount --bind "/$name" "$name"
    mount -o remount,bind,ro,nosuid,nodev "$name"
  fi
done
mount --bind /usr usr
mount -o remount,bind,ro,nosuid,nodev usr
mount --bind "$programs" oracle/programs
mount -o remount,bind,ro,nosuid,nodev oracle/programs
for name in null zero full random urandom; do
  : > "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
echo u:x:1000:1000::/home/u:/bin/bash > etc/passwd
echo u:x:1000: > etc/group
mount -t proc -o nosuid,nodev,noexec proc proc
pivot_root . old
umount -l old
rmdir old
cd /
exec prlimit --cpu=3600 --fsize=16777216 --nofile=512 --core=0 \
  unshare --user --map-user=1000 --map-group=1000 -- "$@"
