"""Properties of every collective of a process group; each check runs programs on all ranks."""
