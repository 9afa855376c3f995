"""Faults of a device, planted into the behaviours of torch's API."""
