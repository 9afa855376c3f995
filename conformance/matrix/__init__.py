"""Builds of torch × modes of a target: which cells there are to run, and what became of each.

plan     a target and builds          ──► cells (JSON, as a workflow's matrix takes it)
each cell is run on its own: ``conformance run --part``, in an environment with that build
collect  cells, and folders of results ──► one table, a column per build; nothing that is missing looks run
"""
