"""The lives of processes: their memory limits, watchdogs and parents."""
