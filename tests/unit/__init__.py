"""Pure functions of the suite, folder by folder as in conformance/: no run, no backend."""
