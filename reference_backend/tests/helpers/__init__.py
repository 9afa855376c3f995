"""Helpers of the device's tests: processes, ranks, random programs, recorded descriptions."""
