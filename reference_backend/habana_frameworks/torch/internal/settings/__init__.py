"""Environment variables of the device: parsing them, the flags in effect, the mode, the node's modules."""
