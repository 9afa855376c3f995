"""Tests of devices, streams, events, the generator, and ends of processes."""
