"""The gaps of a device, found in torch's dispatcher and in the device's module, and by small trials."""
