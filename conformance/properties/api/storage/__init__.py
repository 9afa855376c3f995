"""Behaviours of area ``storage``: storages of tensors, and tensors that use a given storage."""
