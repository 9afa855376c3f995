"""The facts that a run records of its machine."""

from __future__ import annotations

from conformance.builds import installed_torch


def test_no_variable_but_those_of_the_list_is_written_down_and_no_path() -> None:
    variables = {"OMP_NUM_THREADS": "2", "HOME": "/home/jane", "PYTHONHASHSEED": "/etc", "TOKEN": "x"}
    assert installed_torch.recorded_variables(variables) == {"OMP_NUM_THREADS": "2"}
