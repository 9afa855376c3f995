"""Plan and collect the cells of a matrix: builds of torch × modes of a target.

* :mod:`.plan` plans the cells of a target and writes them as JSON for a workflow's matrix.
* A job of the workflow then runs each cell with ``conformance run --part``, in an environment with the cell's
  build.
* :mod:`.collect` reads the outcome of each cell. A cell without results has the status ``missing``.
* :mod:`.table` formats the outcomes as a table with one column per build.
"""
