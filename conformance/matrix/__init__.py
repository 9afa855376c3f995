"""Plan and collect the cells of a matrix: builds of torch × modes of a target.

* :mod:`.plan` plans the cells of a target and writes them as JSON for a workflow's matrix.
* A job runs each cell with ``conformance run --part`` in an environment with its build.
* :mod:`.collect` reads the outcome of each cell, and :mod:`.table` formats them with one column per build. A
  cell without results is reported as missing.
"""
