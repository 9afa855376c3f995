"""Internals of the package: settings, patches, fusion, events; `bridge_config`, `fuse_conv_bn` are public."""
