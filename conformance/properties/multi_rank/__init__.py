"""Properties that need several ranks: process groups, device meshes, distributed training, checkpoints and
failures of ranks. ``properties/collectives`` checks the single collectives.
"""
