"""Run third-party programs, unchanged, on the reference device, and write a page of their test results."""
