"""Random programs over all concurrent features of the engine, compared with the CPU."""
