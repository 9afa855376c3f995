"""Programs of others, unchanged, on the reference device: their tests, and a page of what happened."""
