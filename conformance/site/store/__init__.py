"""The store of the site: the published runs of each backend, mode and build, stored as deltas."""
