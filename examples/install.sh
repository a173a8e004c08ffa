#!/usr/bin/env bash
# Install what Motley needs on Debian or Ubuntu, if anything is missing; as root or with sudo.
# Groups: "build" (to build and run), "data" (a text to train on), "test" (what tests compare with, and a faster make).
set -euo pipefail

build="gcc libc6-dev make cmake pkg-config openmpi-bin libopenmpi-dev libjansson-dev libxxhash-dev libutf8proc-dev libdnnl-dev libhwloc-dev libpmix-dev libglpk-dev"
data="bible-kjv"
test="ninja-build libonnx-testdata libonnx-dev protobuf-c-compiler libprotobuf-c-dev iproute2 jq"

packages=""
for group in "${@:-build}"; do
  case $group in
    build) packages+=" $build" ;;
    data) packages+=" $data" ;;
    test) packages+=" $test" ;;
    *) echo "install.sh: unknown group '$group': use build, data or test" >&2; exit 2 ;;
  esac
done

missing=""
for package in $packages; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -x installed >/dev/null || missing+=" $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: missing packages:$missing; install them as root" >&2; exit 3; }
  as_root="sudo"
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
