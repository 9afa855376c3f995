"""Behaviours of area ``storage``: storages, and tensors over them."""
