"""Behaviours of area ``control-flow``: cond, while_loop, scan and map."""
