"""The results that a run schedules: cases, levels, selections and shards."""
