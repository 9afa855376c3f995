"""The device under test, driven in this process."""
