"""Behaviours: programs that run on the CPU and on the device and record observations, which must match."""
