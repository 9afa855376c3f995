"""Programs that run twice, on the CPU and on the device, and what each shows."""
