"""Expected deviations of a target: their files, their state after a leg, and proposals for new ones."""
