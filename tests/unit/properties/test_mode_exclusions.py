"""If the suite excludes an operator in a mode, torch's CPU does not support the operator in
this mode either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance import torch_testing_internals
from conformance.device.compilation import compile_with_log
from conformance.framework.calls import attempt
from conformance.properties import mode_exclusions
from conformance.properties.operators import _compiled_calls, _gradients
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import kernels_of
from conformance.samples.operators import dtype_of, samples_of
from conformance.subjects.torch_databases import find, subjects
from conformance.worker.mode_evidence import _preferred_dtype


def _compiles(function: Callable[..., Any], name: str) -> bool:
    subject = find("operator", name)
    samples = samples_of(subject, dtype_of(_preferred_dtype(subject.info)))
    for sample in samples.varied(3):
        call, log = compile_with_log(None, function)
        with (
            torch_testing_internals.torch_seeded(0),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            if attempt(functools.partial(to_host(sample).call, call)).ok and log.has_run_operator_calls:
                return True
    return False


@pytest.mark.parametrize("name", sorted(mode_exclusions.exclusion_reasons("compile", "no_graph")))
def test_excluded_operators_do_not_compile(name: str) -> None:
    assert not _compiles(_compiled_calls.unseeded_operator(find("operator", name)), name)


@pytest.mark.parametrize("name", sorted(mode_exclusions.exclusion_reasons("compile", "no_inplace_graph")))
def test_excluded_inplace_operators_do_not_compile(name: str) -> None:
    assert _compiles(_compiled_calls.unseeded_operator(find("operator", name)), name)
    assert not _compiles(find("operator", name).info.inplace_variant, name)


@pytest.mark.parametrize("key", sorted(mode_exclusions.exclusion_reasons("compile", "no_backward_graph")))
def test_excluded_gradients_do_not_compile(key: str) -> None:
    name, _, dtype = key.partition("@")
    subject = find("operator", name)
    for sample in samples_of(subject, dtype_of(dtype), requires_grad=True).chosen(4):
        call, log = compile_with_log(None, _compiled_calls.unseeded_operator(subject))
        with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings():
            take = functools.partial(_gradients.differentiate, subject.info, call, to_host(sample))
            outcome = attempt(take)
        assert not (outcome.ok and log.has_run_operator_calls and outcome.value.gradients), sample.describe()


def test_operators_excluded_from_graphs_need_the_host() -> None:
    always, sometimes = set(), set()
    for subject in subjects("operator"):
        if torch_testing_internals.is_elementwise_unary(
            subject.info
        ) or torch_testing_internals.is_elementwise_binary(subject.info):
            continue
        samples = samples_of(subject, dtype_of(_preferred_dtype(subject.info)))
        kernels = [kernels_of(subject.info.op, sample) for sample in samples.chosen(8)]
        reads_host = [bool(kernel_calls.host) for kernel_calls in kernels if kernel_calls is not None]
        if any(reads_host):
            (always if all(reads_host) else sometimes).add(subject.name)
    assert always == set(mode_exclusions.exclusion_reasons("graph", "host"))
    assert sometimes == set(mode_exclusions.exclusion_reasons("graph", "host_sometimes"))


def test_every_entry_has_a_reason_and_tables_are_known_by_name() -> None:
    for mode, table in (
        ("compile", "no_graph"),
        ("compile", "no_backward_graph"),
        ("compile", "no_inplace_graph"),
        ("graph", "host"),
        ("graph", "no_kernels"),
        ("graph", "host_sometimes"),
    ):
        operator_names = {subject.name for subject in subjects("operator")}
        for key, reason in mode_exclusions.exclusion_reasons(mode, table).items():
            assert key.partition("@")[0] in operator_names
            assert reason.strip()
    with pytest.raises(LookupError, match="mode 'compile' has no table 'x'"):
        mode_exclusions.exclusion_reasons("compile", "x")
