"""Properties of several ranks beyond single collectives: process groups, training, checkpoints, failures."""
