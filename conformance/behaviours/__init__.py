"""Programs that run twice, on the CPU and on the device, and the observations that each makes."""
