"""Tools to inspect compilations of `torch.compile`."""
