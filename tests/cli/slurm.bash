# A Slurm of two nodes, n1 and n2, on one machine: munged, slurmctld, and a slurmd in a UTS namespace for each, in a
# folder and on ports of their own. For root.
#
#   . tests/cli/slurm.bash
#   slurm_can || exit 77
#   trap slurm_down EXIT
#   slurm_up "$folder/slurm"        # $SLURM_CONF is exported
slurm_pids=() slurm_spool=

slurm_can() {
  local tool
  for tool in slurmctld slurmd munged sbatch scontrol squeue srun unshare hostname; do
    command -v $tool >/dev/null || return 1
  done
  [ "$(id -u)" = 0 ] && unshare --uts true 2>/dev/null
}

# slurm_port: one that nobody listens on now
slurm_port() {
  local port
  for _ in $(seq 200); do
    port=$((20000 + RANDOM % 10000))
    if ! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; then
      echo $port
      return
    fi
  done
  return 1
}

slurm_up() { # FOLDER
  local here=$1 node
  slurm_spool=$here
  mkdir -p "$here/state" "$here/n1" "$here/n2"
  chmod 755 "$here"
  head -c 1024 /dev/urandom >"$here/munge.key"
  chmod 400 "$here/munge.key"
  munged --foreground --force --key-file="$here/munge.key" --socket="$here/munge.socket" --pid-file="$here/munge.pid" \
    --log-file="$here/munge.log" --seed-file="$here/munge.seed" >"$here/munged.out" 2>&1 &
  slurm_pids+=($!)
  cat >"$here/slurm.conf" <<CONF
ClusterName=motley
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$(slurm_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$here/munge.socket
CredType=cred/munge
StateSaveLocation=$here/state
SlurmdSpoolDir=$here/%n
SlurmctldPidFile=$here/slurmctld.pid
SlurmdPidFile=$here/%n.pid
SlurmctldLogFile=$here/slurmctld.log
SlurmdLogFile=$here/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=5
SlurmctldTimeout=300
SlurmdTimeout=300
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=n1 Port=$(slurm_port) CPUs=2 Feature=site,cpu-2t
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname=n2 Port=$(slurm_port) CPUs=2 Feature=cpu,site
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF=$here/slurm.conf
  slurmctld -D -i >"$here/slurmctld.out" 2>&1 &
  slurm_pids+=($!)
  for node in n1 n2; do
    unshare --uts sh -c 'hostname "$0"; exec slurmd -D -N "$0"' $node >"$here/$node.out" 2>&1 &
    slurm_pids+=($!)
  done
}

# Whether both nodes can have a job.
slurm_ready() { [ "$(sinfo -h -N -o %t 2>/dev/null | grep -c '^idle$')" = 2 ]; }

slurm_logs() { tail -n 20 "$slurm_spool"/*.log "$slurm_spool"/*.out; }

# What Slurm has started knows its configuration; it goes with it.
slurm_down() {
  local pid file
  scancel --state=RUNNING,PENDING,SUSPENDED --user=root 2>/dev/null || true
  for file in $(grep -sl "SLURM_CONF=$slurm_spool/" /proc/[0-9]*/environ); do
    pid=$(tr -dc 0-9 <<<"$file")
    if [ "$pid" != $$ ]; then slurm_pids+=("$pid"); fi
  done
  for pid in "${slurm_pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${slurm_pids[@]}"; do
    for _ in $(seq 50); do
      if ! kill -0 "$pid" 2>/dev/null; then break; fi
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
  slurm_pids=()
}
