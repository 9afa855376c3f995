"""Behaviours by API area: short programs that run on the CPU and on the device and must give equal
observations.
"""
