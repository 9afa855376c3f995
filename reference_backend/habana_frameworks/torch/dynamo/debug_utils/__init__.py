"""Looking at what `torch.compile` did."""
