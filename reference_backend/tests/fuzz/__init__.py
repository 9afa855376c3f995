"""Random programs over everything that the engine can do at once, compared with the CPU."""
