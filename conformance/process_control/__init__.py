"""Start, watch and stop child processes that may crash or hang, and limit the time and memory of workers."""
