"""Behaviours of area ``accelerator``: torch.accelerator, guards and the device's module."""
