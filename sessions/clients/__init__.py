"""Programs of others, unchanged, on the reference device: their own tests, and a page of what happened."""
