"""The command line in processes of its own: runs, crashes, resuming and merging."""
