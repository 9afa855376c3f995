"""Behaviours of area ``accelerator``: ``torch.accelerator``, device guards, and the device module (such as
``torch.cuda``).
"""
