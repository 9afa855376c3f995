"""Behaviours of area ``autograd``: graphs, gradients, hooks, grad modes and user-defined
``autograd.Function`` classes.
"""
