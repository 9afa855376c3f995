"""Behaviours of area ``checkpoint``: ``torch.utils.checkpoint``, which recomputes tensors in the backward."""
