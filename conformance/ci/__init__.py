"""The implementation of workflow steps, so that a workflow contains no logic (docs/workflows.md).

* :mod:`.step_outputs` sets outputs, the job summary and the path.
* :mod:`.install` makes the environment of a cell: torch, the suite, the backend, and the torch guard.
* :mod:`.merge_artifacts` merges the artifacts of all legs, and reports missing legs.
* :mod:`.results_branch` adds runs to the results branch, which is append only.
* :mod:`.cell_regressions` and :mod:`.issues` find regressed cells and maintain one issue for each.
* :mod:`.images` pushes a saved image to a registry.
* :mod:`.vendor_results` fetches and verifies the results of registered vendors.
"""
