"""Tests of devices, streams, events, the generator, and process exit."""
