"""Training on several devices: one process per device, process group backend ``hccl``."""
