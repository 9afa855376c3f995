"""Internal modules, except `bridge_config` and `fuse_conv_bn`, which are public import paths."""
