"""Plan the results of a run: by target, level, the user's selection and shard."""
