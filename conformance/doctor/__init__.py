"""The missing features of a device, found in torch's dispatcher, in the device's module, and by small
trials.
"""
