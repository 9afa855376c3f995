"""Find the missing features of a device: inspect torch's dispatcher and the device's module, and run small
trials on the device.
"""
