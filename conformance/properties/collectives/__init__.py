"""Properties of each collective of a process group. Each check runs rank programs on all ranks."""
