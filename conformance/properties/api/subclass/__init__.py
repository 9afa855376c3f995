"""Behaviours of area ``subclass``: tensor subclasses, ``__torch_dispatch__``, ``__torch_function__`` and
modes.
"""
