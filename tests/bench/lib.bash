# What the scripts of this folder share. They work in the root of the repository, with $motley: the release build's, or
# $MOTLEY; and with $work: a folder that goes away, or $KEEP, which stays.
set -euo pipefail
cd "$(dirname "$0")/../.."
motley=${MOTLEY:-$PWD/build/release/motley}
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
tidy() { [ -n "${KEEP:-}" ] || rm -rf "$work"; }
trap tidy EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# needs TOOL...: or the script ends.
needs() {
  local tool
  for tool; do command -v "$tool" >/dev/null || { echo "$(basename "$0"): needs $tool" >&2; exit 77; }; done
}

# needs_hosts: hosts, as network namespaces, which go away; or the script ends.
needs_hosts() {
  . tests/cli/hosts.bash
  trap 'hosts_down; tidy' EXIT
  hosts_can || { echo "$(basename "$0"): needs root and network namespaces" >&2; exit 77; }
}

# field NAME FILE: the first number of that name in a document.
field() { grep -o "\"$1\": [0-9.e+-]*" "$2" | head -n 1 | cut -d' ' -f2; }
