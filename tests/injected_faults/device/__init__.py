"""Devices whose streams, events and memory misbehave."""
