"""Behaviours of area ``functorch``: ``grad``, ``vjp``, ``jvp``, ``vmap`` and other transforms of
``torch.func``.
"""
