#!/usr/bin/env bash
# The Debian packages: lintian accepts them; a fresh minbase installs them with apt, and runs the quickstart without a
# compiler. Takes minutes, root, the network and a folder of 1 GB: only with MOTLEY_MINBASE=1, or a folder in which
# mmdebstrap has made a minbase, which is then used and changed.
. "$SOURCE/tests/cli/lib.bash"
[ -n "${MOTLEY_MINBASE:-}" ] || { echo "takes minutes: set MOTLEY_MINBASE=1"; exit 77; }
for tool in cpack mmdebstrap lintian dpkg-shlibdeps chroot unshare; do
  command -v $tool >/dev/null || { echo "there is no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 77; }
build=$(dirname "$MOTLEY")
! sanitized || { echo "packages are of programs without sanitizers"; exit 77; }
unset MOTLEY_MODULES
cpack --config "$build/CPackConfig.cmake" -B "$folder/packages" >packed.txt 2>&1 || fail "$(cat packed.txt)"
lintian --fail-on error packages/*.deb >lintian.txt 2>&1 || fail "$(cat lintian.txt)"
for package in packages/*.deb; do
  dpkg-deb -c "$package" | has "share/doc/.*/copyright$" || fail "$package has no copyright"
done

base=$MOTLEY_MINBASE
if [ "$base" = 1 ]; then
  base=$folder/minbase
  mmdebstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$base" >base.txt 2>&1 || fail "$(tail base.txt)"
fi
mkdir -p "$base/packages"
cp packages/*.deb "$base/packages/"
cp /etc/resolv.conf "$base/etc/"
[ ! -e "$base/usr/bin/cc" ] && [ ! -e "$base/usr/bin/gcc" ] || fail "the minbase has a compiler"
# In a namespace of mounts and processes of its own, which ends with the command.
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive chroot "$1" bash -c "$2"' \
    - "$base" "$1"
}
inside "apt-get update -qq && apt-get install -y -qq /packages/*.deb bible-kjv" >apt.txt 2>&1 || fail "$(tail -n 20 apt.txt)"
inside "test ! -e /usr/bin/cc && test ! -e /usr/bin/gcc" || fail "a compiler was installed"
inside "cd /root && WORK=quick ${STEPS:+STEPS=$STEPS} /usr/share/doc/motley/examples/quickstart.sh" >quick.txt 2>&1 ||
  fail "quickstart: $(tail -n 30 quick.txt)"
has "parameter hashes equal on 2 ranks" quick.txt || fail "$(tail -n 30 quick.txt)"
[ -s "$base/root/quick/run/run.json" ] || fail "no run.json"
inside "motley train --devise cuda" >said.txt 2>&1 && fail "a wrong flag was taken"
has "did you mean --device?" said.txt || fail "$(cat said.txt)"
# The CUDA module is there, and what it lacks here has a name.
if [ -e "$build/motley_cuda.so" ]; then
  code=0
  inside "cd /root && motley bench operators --device cuda" >said.txt 2>&1 || code=$?
  [ $code = 3 ] && has "libcuda.so.1\|libnvrtc\|libcublasLt\|libnccl" said.txt || fail "$code: $(cat said.txt)"
fi
inside "apt-get remove -y -qq motley" >apt.txt 2>&1 || fail "$(tail apt.txt)"
[ ! -e "$base/usr/bin/motley" ] && [ ! -e "$base/usr/lib/motley" ] || fail "it is still there after apt-get remove"
tail -n 5 quick.txt
