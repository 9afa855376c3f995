"""Environment variables of the device: parser, flags with their values, lazy mode, modules of the node."""
