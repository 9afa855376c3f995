"""Builds of torch × modes of a target: the cells to run, and the outcome of each.

plan     a target and builds           ──► cells (JSON, in the form of a workflow's matrix)
each cell is run on its own: ``conformance run --part``, in an environment with that build
collect  cells, and folders of results ──► one table, a column per build; a missing cell is shown as missing
"""
