#!/bin/bash
# Run one shard per task of an array. SHARDS is the number of shards, FOLDER a folder that all nodes share:
#
#   sbatch --array=1-SHARDS slurm-array.sh SHARDS FOLDER --target NAME_OR_FILE [OPTION OF conformance run]...
#
# Submit this file from the environment that has torch, the backend and the suite, or activate that environment below. To repeat a
# task, submit the same line with only its number (--array=7): an interrupted shard continues.
#SBATCH --job-name=conformance
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.log
set -eu
shards=$1 folder=$2/shard-$SLURM_ARRAY_TASK_ID
shift 2
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

options=(-n "${SLURM_CPUS_PER_TASK:-1}" "$@" --part --shard "$SLURM_ARRAY_TASK_ID/$shards" -o "$folder")
# A run whose journal has a plan can be resumed. Without a plan the shard starts from the beginning.
if grep -qs '^{"event":"plan"' "$folder"/journal.jsonl "$folder"/legs/*/journal.jsonl; then
    options+=(--resume "$folder")
fi
exec conformance run "${options[@]}"
