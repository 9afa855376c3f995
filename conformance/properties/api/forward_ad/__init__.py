"""Behaviours of area ``forward-ad``: forward-mode differentiation (``torch.autograd.forward_ad``)."""
