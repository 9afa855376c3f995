"""The passes of the compile backend. The module `passes` defines the order of the passes."""
