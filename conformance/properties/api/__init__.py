"""Behaviours by API area: short programs whose observations must be the same on the CPU and on the device."""
