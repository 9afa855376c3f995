"""Behaviours of area ``accelerator``: torch.accelerator, device guards and the device's module."""
