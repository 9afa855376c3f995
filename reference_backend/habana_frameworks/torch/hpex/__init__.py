"""The Gaudi bridge's extensions of torch: fused kernels, normalization, optimizers, mixed precision."""
