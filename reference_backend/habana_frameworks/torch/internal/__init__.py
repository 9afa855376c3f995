"""Internals: settings, patches, fusion, events. `bridge_config` and `fuse_conv_bn` are public."""
