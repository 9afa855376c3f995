"""hl-smi and the management library of the reference HPU's simulated modules."""
