# Hosts on one machine: network namespaces with links of chosen rates, each with its own host name, core and (a tmpfs
# over) working folder. For root; `hosts_can` says whether this machine can do it.
#
#   . tests/cli/hosts.bash
#   hosts_can || exit 77
#   trap hosts_down EXIT
#   hosts_up 1gbit                                # two, $HOST_A and $HOST_B; or "": the link as fast as it is
#   hosts_switch 1gbit/1gbit 1gbit/1gbit 100mbit/1gbit    # or any number on a switch, by what each sends / receives
#   hosts_cpu=0.6                                 # before them: of a core for each host, by a cgroup; else a whole one
#   on_hosts -n 2 motley ...                      # mpirun from the first host: ranks in turn, one on each host
hosts_id=$$
HOST_A=mt${hosts_id}a HOST_B=mt${hosts_id}b
HOSTS=($HOST_A $HOST_B)
hosts_middle=mt${hosts_id}-
hosts_mtu=9000
hosts_cpu=
hosts_cgroups=

hosts_can() {
  local tool
  for tool in ip tc unshare taskset hostname; do command -v $tool >/dev/null || return 1; done
  [ "$(id -u)" = 0 ] && unshare --uts --mount true 2>/dev/null &&
    ip netns add ${HOST_A}t 2>/dev/null && ip netns delete ${HOST_A}t
}

# hosts_shape NAMESPACE DEVICE RATE: what leaves it there; "": as fast as it is. The burst is small: a bucket that holds
# whole messages would let them pass faster than the rate, as no wire does.
hosts_shape() {
  [ -z "$3" ] || ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3" burst 16kb latency 50ms
}

# hosts_address HOST NUMBER: its device, v$HOST, and loopback. Congestion control is the kernel's own default: BBR's
# probing, which some machines set, slows messages in both directions at once.
hosts_address() {
  ip netns exec "$1" sysctl -qw net.ipv4.tcp_congestion_control=cubic 2>/dev/null || true
  ip -n "$1" addr add 10.77.0."$2"/24 dev v"$1"
  ip -n "$1" link set lo up
  ip -n "$1" link set v"$1" up
}

# hosts_mount_cgroups: where `ip netns exec`, which mounts /sys anew, still shows them
hosts_mount_cgroups() {
  local root=/sys/fs/cgroup
  [ -e $root/cgroup.controllers ] || root=$root/cpu
  hosts_cgroups=$(mktemp -d)
  mount --bind $root "$hosts_cgroups" && { [ $root != /sys/fs/cgroup ] || echo +cpu >$root/cgroup.subtree_control; }
}

# hosts_hold HOST: makes its cgroup, of $hosts_cpu cores
hosts_hold() {
  local group=$hosts_cgroups/$1 period=10000 quota
  quota=$(awk -v cpu="$hosts_cpu" -v period=$period 'BEGIN { printf "%d", cpu * period }')
  mkdir "$group" &&
    if [ -e "$group/cpu.max" ]; then
      echo "$quota $period" >"$group/cpu.max"
    else
      echo $period >"$group/cpu.cfs_period_us" && echo "$quota" >"$group/cpu.cfs_quota_us"
    fi
}

# hosts_make_agent FOLDER: host HOST COMMAND ARGUMENT...: run it there. mpirun calls this instead of ssh, with a line for
# a shell.
hosts_make_agent() {
  local folder=$1 cores host held core i=0
  hosts_agent=$(mktemp)
  cores=($(awk -F '[:,]' '/^Cpus_allowed_list/ { for (i = 2; i <= NF; i++) {
    n = split($i, ends, "-"); for (c = ends[1] + 0; c <= ends[n] + 0; c++) print c } }' /proc/self/status))
  [ -z "$hosts_cpu" ] || hosts_mount_cgroups
  {
    echo '#!/bin/sh'
    echo 'host=$1; shift'
    echo 'case $host in'
    for host in "${HOSTS[@]}"; do
      core=${cores[i++ % ${#cores[@]}]} held=
      if [ -n "$hosts_cpu" ]; then
        hosts_hold "$host" || { echo "hosts.bash: no cgroup that holds $host to $hosts_cpu of a core" >&2; exit 1; }
        core=$(IFS=,; echo "${cores[*]}") held="; echo \$\$ >$hosts_cgroups/$host/cgroup.procs; export OMP_NUM_THREADS=1"
      fi
      echo "$host) core=$core$held ;;"
    done
    echo 'esac'
    cat <<AGENT
[ "\$1" = mpirun ] || set -- sh -c "\$*"
exec ip netns exec "\$host" unshare --uts --mount taskset -c \$core sh -c \
  'hostname "\$0"; ${folder:+mount -t tmpfs tmpfs "$folder" && cd "$folder";} exec "\$@"' "\$host" "\$@"
AGENT
  } >"$hosts_agent"
  chmod +x "$hosts_agent"
}

hosts_up() { # RATE [FOLDER]: of the link; a folder of which each host has its own, empty
  local rate=$1 host side=1
  hosts_make_agent "${2:-}"
  ip netns add $HOST_A && ip netns add $HOST_B
  ip link add v$HOST_A netns $HOST_A mtu $hosts_mtu type veth peer name v$HOST_B netns $HOST_B mtu $hosts_mtu
  for host in $HOST_A $HOST_B; do
    hosts_address $host $((side++))
    hosts_shape $host v$host "$rate"
  done
}

hosts_switch() { # SENDS/RECEIVES of each host
  local rates host number=0 port letters=abcdefghijkl
  HOSTS=()
  for rates in "$@"; do HOSTS+=("mt$hosts_id${letters:number++:1}"); done
  hosts_make_agent ""
  ip netns add $hosts_middle
  ip -n $hosts_middle link add switch mtu $hosts_mtu type bridge
  ip -n $hosts_middle link set switch up
  number=0
  for host in "${HOSTS[@]}"; do
    port=p$host rates=${*:number+1:1}
    ip netns add "$host"
    ip link add "v$host" netns "$host" mtu $hosts_mtu type veth peer name "$port" netns $hosts_middle mtu $hosts_mtu
    ip -n $hosts_middle link set "$port" master switch up
    hosts_address "$host" $((++number))
    hosts_shape "$host" "v$host" "${rates%/*}"
    hosts_shape $hosts_middle "$port" "${rates#*/}"
  done
}

# Hosts that share a core give it to each other while they wait: else each message takes the scheduler's slices of some
# milliseconds. mpirun's own flags first, which say where ranks are placed, then the program.
hosts_mpirun() {
  local yield=
  [ ${#HOSTS[@]} -le "$(nproc)" ] || yield="--mca mpi_yield_when_idle 1"
  "$hosts_agent" "${HOSTS[0]}" mpirun --bind-to none $yield --mca plm_rsh_agent "$hosts_agent" --mca btl tcp,vader,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$@"
}

# Ranks are placed one on each host in turn.
on_hosts() {
  local host list=
  for host in "${HOSTS[@]}"; do list+=${list:+,}$host:8; done
  hosts_mpirun --map-by node --host "$list" "$@"
}

hosts_down() {
  local host
  for host in "${HOSTS[@]}" $hosts_middle; do
    ip netns pids $host 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete $host 2>/dev/null || true
    [ -z "$hosts_cgroups" ] || rmdir "$hosts_cgroups/$host" 2>/dev/null || true
  done
  if [ -n "$hosts_cgroups" ]; then umount "$hosts_cgroups" && rmdir "$hosts_cgroups" || true; fi
  hosts_cgroups=
  rm -f "${hosts_agent:-}"
}

# train_on_hosts NAME FLAG...: NAME.json by four ranks on the text `text`; what it says is in said.txt.
train_on_hosts() {
  local name=$1
  shift
  on_hosts -n 4 "$MOTLEY" train "$PWD/$name.json" --data "$PWD/text" --start-deadline 120 "$@" >said.txt 2>&1 ||
    fail "$name: $(cat said.txt)"
  grep -q "parameter hashes equal on 4 ranks" said.txt || fail "$name: $(cat said.txt)"
}
