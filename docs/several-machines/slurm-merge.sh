#!/bin/bash
# Merge the shards of slurm-array.sh after all its tasks have ended, also if tasks failed:
#
#   sbatch --dependency=afterany:JOB slurm-merge.sh FOLDER
#
# The merged results are in FOLDER/merged. The exit code is 3 if a shard is missing or was interrupted.
#SBATCH --job-name=conformance-merge
#SBATCH --ntasks=1
#SBATCH --output=%x-%j.log
set -eu
exec conformance merge "$1"/shard-* -o "$1/merged"
