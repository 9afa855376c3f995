"""Training on several devices, with one process per device and the process group backend ``hccl``."""
