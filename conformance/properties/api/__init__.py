"""Behaviours by area: short programs that must show the same on the CPU and on the device."""
