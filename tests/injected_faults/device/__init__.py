"""Devices with faulty streams, events and memory."""
