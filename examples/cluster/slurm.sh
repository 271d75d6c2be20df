#!/bin/bash
# A cluster in a job of Slurm, and a program on it: see docs/cluster/slurm.md.
#
#     sbatch --nodes=4 --cpus-per-task=8 slurm.sh program.py arguments...
#
#SBATCH --job-name=mobula
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --no-kill
#SBATCH --signal=B:TERM@60
set -euo pipefail

# The environment with Mobula: on a disk that all machines share, or at the same path on each.
source "${MOBULA_VENV:-$HOME/mobula}/bin/activate"

# A token for this job alone: two jobs on one machine have nothing to do with each other.
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN

# A node with what the job has of this machine. Runs on all of them, so it is exported.
start_node() {
    local bytes=$((${SLURM_MEM_PER_NODE:-0} * 1048576)) options=(--num-cpus="$SLURM_CPUS_ON_NODE")
    if ((bytes > 0)); then
        options+=(--object-store-memory=$((bytes * 3 / 10)) --memory=$((bytes * 6 / 10)))
    fi
    exec ray start "${options[@]}" "$@"
}
export -f start_node

# The nodes leave, then the head ends with its Redis; also when Slurm ends the job.
workers='' program=''
end() {
    trap - EXIT TERM
    if [[ $program ]]; then kill "$program" 2>/dev/null || true; fi
    if [[ $workers ]]; then
        # a signal to srun would kill them at once
        scancel --signal=TERM "$SLURM_JOB_ID.0" 2>/dev/null || true
        wait "$workers" || true
    fi
    ray stop --address="$RAY_ADDRESS" || true
}

# This script runs on the job's first machine, which gets the head.
said=$(start_node --head --port=0)
RAY_ADDRESS=$(sed -n "s/^ *ray start --address='\(.*\)'$/\1/p" <<<"$said")
if [[ ! $RAY_ADDRESS ]]; then
    echo "No cluster: $said" >&2
    exit 1
fi
export RAY_ADDRESS # which ray.init() of the program joins
trap end EXIT
trap 'exit 143' TERM
echo "The head is $SLURMD_NODENAME, $RAY_ADDRESS"

others=$((SLURM_JOB_NUM_NODES - 1))
if ((others > 0)); then
    srun --nodes="$others" --ntasks="$others" --exclude="$SLURMD_NODENAME" \
        --no-kill --kill-on-bad-exit=0 bash -c 'start_node --address="$RAY_ADDRESS" --block' >/dev/null &
    workers=$!
    for ((i = 0; $(ray status | grep -c '^ 1 node_') < SLURM_JOB_NUM_NODES; i++)); do
        if ((i == 60)) || ! kill -0 "$workers" 2>/dev/null; then
            echo "Not all nodes have joined" >&2
            exit 1
        fi
        sleep 1
    done
fi

python "$@" &
program=$!
status=0
wait "$program" || status=$?
program=''
exit "$status"
