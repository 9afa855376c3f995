"""The values that results are compared with: computed on the CPU, or stated by documentation."""
