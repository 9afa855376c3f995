"""A run records only listed environment variables, and no values that are paths."""

from __future__ import annotations

from conformance.builds import installed_torch


def test_only_listed_variables_without_paths_are_recorded() -> None:
    variables = {"OMP_NUM_THREADS": "2", "HOME": "/home/jane", "PYTHONHASHSEED": "/etc", "TOKEN": "x"}
    assert installed_torch.environment_variables_to_record(variables) == {"OMP_NUM_THREADS": "2"}
