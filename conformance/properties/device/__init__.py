"""Properties of a device's API: streams, events, memory and graphs."""
