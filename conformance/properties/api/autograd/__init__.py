"""Behaviours of area ``autograd``: graphs, gradients, hooks, modes and custom functions."""
