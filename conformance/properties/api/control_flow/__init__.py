"""Behaviours of area ``control-flow``: the operators ``cond``, ``while_loop``, ``scan``, ``associative_scan``
and ``map``.
"""
