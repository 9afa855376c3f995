"""hl-smi, and the Python interface of the management library, for the simulated modules (Gaudi cards)."""
