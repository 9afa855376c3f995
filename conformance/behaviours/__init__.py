"""Differential programs that run on the CPU and on the device, and the observations that they record."""
