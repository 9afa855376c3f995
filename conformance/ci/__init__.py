"""The code behind the steps of workflows, so that a workflow holds no logic of its own (docs/workflows.md).

steps     outputs, a summary, a program on the path
install   an environment of a cell: torch, the suite, the backend, and the guard that torch stays
gather    the artifacts of all legs ──► one results file, a table, an exit code; missing legs are shown
store     results ──► the branch of results, which only grows
issues    regressed cells ──► one issue each
images    a saved image ──► a registry, by digest
pull      the results of registered vendors, fetched from their own workflow runs and verified
"""
