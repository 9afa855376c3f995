"""Processes that may crash or hang: their supervisor, memory limit, watchdog and parent."""
