"""Behaviours of area ``printing``: the text of printed tensors."""
