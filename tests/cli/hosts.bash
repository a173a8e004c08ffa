# Two hosts on one machine: network namespaces with a link of a chosen rate, each with its own host name, core and (a
# tmpfs over) working folder. For root; `hosts_can` says whether this machine can do it.
#
#   . tests/cli/hosts.bash
#   hosts_can || exit 77
#   trap hosts_down EXIT
#   hosts_up 1gbit            # or "": the link as fast as it is
#   on_hosts -n 2 motley ...  # mpirun from the first host: rank 0 on $HOST_A, rank 1 on $HOST_B
hosts_id=$$
HOST_A=mt${hosts_id}a HOST_B=mt${hosts_id}b

hosts_can() {
  local tool
  for tool in ip tc unshare taskset hostname; do command -v $tool >/dev/null || return 1; done
  [ "$(id -u)" = 0 ] && unshare --uts --mount true 2>/dev/null &&
    ip netns add ${HOST_A}t 2>/dev/null && ip netns delete ${HOST_A}t
}

hosts_up() { # RATE [FOLDER]: of the link; a folder of which each host has its own, empty
  local rate=$1 folder=${2:-} host side=1 cores
  hosts_agent=$(mktemp)
  cores=($(awk -F '[:,]' '/^Cpus_allowed_list/ { for (i = 2; i <= NF; i++) {
    n = split($i, ends, "-"); for (c = ends[1] + 0; c <= ends[n] + 0; c++) print c } }' /proc/self/status))
  ip netns add $HOST_A && ip netns add $HOST_B
  ip link add v$HOST_A netns $HOST_A type veth peer name v$HOST_B netns $HOST_B
  for host in $HOST_A $HOST_B; do
    ip -n $host addr add 10.77.0.$side/24 dev v$host
    ip -n $host link set lo up
    ip -n $host link set v$host up
    [ -z "$rate" ] || ip netns exec $host tc qdisc add dev v$host root tbf rate "$rate" burst 256kb latency 50ms
    side=2
  done
  # host HOST COMMAND ARGUMENT...: run it there. mpirun calls this instead of ssh, with a line for a shell.
  cat >"$hosts_agent" <<AGENT
#!/bin/sh
host=\$1; shift
case \$host in $HOST_A) core=${cores[0]} ;; *) core=${cores[1]:-${cores[0]}} ;; esac
[ "\$1" = mpirun ] || set -- sh -c "\$*"
exec ip netns exec "\$host" unshare --uts --mount taskset -c \$core sh -c \
  'hostname "\$0"; ${folder:+mount -t tmpfs tmpfs "$folder" && cd "$folder";} exec "\$@"' "\$host" "\$@"
AGENT
  chmod +x "$hosts_agent"
}

# mpirun's own flags first, then the program. Ranks are placed one on each host in turn.
on_hosts() {
  "$hosts_agent" $HOST_A mpirun --bind-to none --map-by node --mca plm_rsh_agent "$hosts_agent" \
    --host $HOST_A:8,$HOST_B:8 --mca btl tcp,vader,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 "$@"
}

hosts_down() {
  local host
  for host in $HOST_A $HOST_B; do
    ip netns pids $host 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete $host 2>/dev/null || true
  done
  rm -f "${hosts_agent:-}"
}
