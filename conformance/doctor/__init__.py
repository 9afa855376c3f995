"""What a device lacks, computed from torch's dispatcher and from the device's module."""
