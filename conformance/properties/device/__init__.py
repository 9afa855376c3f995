"""Properties of a device's API: streams, events, memory, graphs, the profiler and compilation."""
