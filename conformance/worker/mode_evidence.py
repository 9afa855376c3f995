"""Mode evidence: proof that a subject ran in the mode of its result.

Correct values do not prove that the device computed them in the requested mode. Properties of the modes
``compile`` and ``graph`` verify that a graph was compiled or replayed
(:mod:`conformance.device.compilation`, :mod:`conformance.device.capture`). Mode ``lazy`` uses the properties
of eager mode, which do not observe the mode. The worker therefore counts the operators that lazy graphs
execute during each check.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conformance import torch_testing_internals
from conformance.framework.property import Property
from conformance.framework.recorder import Recorder
from conformance.samples.dispatched_kernels import base_name, kernels_of
from conformance.target.target import Target

#: Operators that the suite itself calls to copy and compare values. Their execution does not show that the
#: subject ran.
_HARNESS = frozenset(
    {"copy", "_to_copy", "clone", "fill", "zero", "empty_like", "eq", "equal", "_local_scalar_dense", "all"}
)

#: Operators that only fill memory. A device may run a different one of these operators instead.
_FILLING = frozenset(
    {
        *("full", "zeros", "ones", "eye", "arange", "linspace", "logspace", "scalar_tensor", "lift_fresh"),
        *("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"),
    }
)

#: Properties that use only the tensor arguments of a sample. For a factory function, which has no tensor
#: argument, these properties make calls without ``device=``, which run on the host.
_ABOUT_ARGUMENTS = frozenset({"bits", "layout"})

#: Pairs of property and subject that cannot run an operator on the device, with the reason.
_NOTHING_RUNS = {
    # torch's fallback for negative views does not accept operators that write several arguments
    ("bits", "_batch_norm_with_update"): "every call is refused",
    # with tensor arguments, torch copies their values to the host and creates the result without a device
    ("bits", "logspace.tensor_overload"): "the host computes the result",
    ("layout", "logspace.tensor_overload"): "the host computes the result",
    # the module has no state that training or evaluation could change
    ("train-eval", "nn.RReLU"): "the property compares only flags",
    # the number of repetitions may depend on values, so the operator runs immediately and is not deferred
    ("sizes", "repeat_interleave"): "the shape of the result depends on values",
    # training is off by default, so these functions return their input
    ("bits", "nn.functional.alpha_dropout"): "the operator returns its input",
    ("random", "nn.functional.alpha_dropout"): "the operator returns its input",
    ("variants", "nn.functional.alpha_dropout"): "the operator returns its input",
    ("random", "nn.functional.feature_alpha_dropout.with_train"): "the operator returns its input",
}

#: Number of samples from which the kernels of an operator are determined.
_SAMPLES = 8


@contextlib.contextmanager
def require_mode_evidence(
    target: Target, entry: Property, subject: Any, recorder: Recorder
) -> Iterator[None]:
    """Record the result as vacuous if its subject did not run in the target's mode inside this context."""
    if target.mode == "compile":
        torch_testing_internals.reset_dynamo()
        try:
            yield
        finally:
            torch_testing_internals.reset_dynamo()
        return
    before = target.executed() if target.mode == "lazy" and entry.runs else None
    yield
    if target.mode != "lazy" or not entry.runs:
        return
    if before is None:
        recorder.note(
            "not verified that the result ran in lazy mode: the target file declares no hook executed_ops"
        )
        return
    target.mark_step()
    target.synchronize()
    after = target.executed() or {}
    expected = possible_kernels_in_lazy_graph(subject, recorder.id.dtype)
    if expected is not None and recorder.samples_used and not expected_kernel_ran(before, after, expected):
        reason = _NOTHING_RUNS.get((entry.name, subject.name))
        if reason is not None:
            recorder.note(f"the property runs no operator on the device: {reason}")
            return
        if entry.name in _ABOUT_ARGUMENTS and not _samples_have_tensors(subject.name, recorder.id.dtype):
            recorder.note(
                "the host runs the calls, because the operator has no tensor argument and the calls pass no "
                "device"
            )
            return
        if expected and all(is_composite(name, target.device) for name in expected):
            recorder.note(
                f"not verified that the result ran in lazy mode: the device composes "
                f"{', '.join(sorted(expected)[:5])} of views, copies and fills, which the suite calls too"
            )
            return
        names = ", ".join(sorted(expected)[:5]) or "an operator that the suite itself does not call"
        recorder.vacuous(f"no operator of the subject ran in a lazy graph; expected {names}")


def is_composite(name: str, device: str) -> bool:
    """Return True if no overload of an operator has a kernel that is registered for the device."""
    key = torch_testing_internals.dispatch_key(device)
    overloads = torch_testing_internals.overloads(name)
    return bool(key and overloads) and not any(
        torch_testing_internals.has_kernel(f"aten::{name}.{overload}".removesuffix("."), key)
        for overload in overloads
    )


def expected_kernel_ran(before: Mapping[str, int], after: Mapping[str, int], expected: Iterable[str]) -> bool:
    """Return True if the counts of executed operators show that an expected operator ran.

    A device may have a single kernel for an operator that the CPU composes of several. Therefore any operator
    that the suite does not call itself is accepted too. If the expected operators only copy or fill, the
    suite's own calls cannot be distinguished, so that any operator is accepted.
    """
    grown = {base_name(name) for name, count in after.items() if count > before.get(name, 0)}
    names = set(expected)
    alike = bool(names) and all(name in _HARNESS | _FILLING or name.endswith("_copy") for name in names)
    return bool(grown & names) or bool(grown - _HARNESS) or (alike and bool(grown))


def possible_kernels_in_lazy_graph(subject: Any, dtype: str) -> frozenset[str] | None:
    """Return the names (without overload names) of the subject's CPU kernels that a lazy graph can contain.

    Return None if there are no such kernels: views, operators with data-dependent shapes and operators that
    read values on the host run at once in every mode.
    """
    if subject.kind == "operator":
        return _kernels_of_operator(subject.name, dtype)
    if subject.kind in ("module", "optimizer"):
        if subject.name in _WITHOUT_KERNELS:
            return None
        return frozenset({"copy", "fill"}) if subject.name in _COPYING else frozenset()
    return None


#: Modules that only return or reshape their input. Dropout returns its input in evaluation mode, the only
#: mode in which its values can be compared.
_WITHOUT_KERNELS = frozenset(
    {
        *("nn.Identity", "nn.Flatten", "nn.Unflatten"),
        *("nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d"),
        *("nn.AlphaDropout", "nn.FeatureAlphaDropout"),
    }
)


#: Modules that a device can implement by copies and fills alone. The suite itself calls copies and fills too.
_COPYING = frozenset(
    f"nn.{kind}Pad{dimensions}d" for kind in ("Zero", "Constant", "Circular") for dimensions in (1, 2, 3)
)


@functools.lru_cache(maxsize=64)
def _samples_have_tensors(name: str, dtype: str) -> bool:
    from conformance.samples.operators import dtype_of, samples_of
    from conformance.subjects.torch_databases import find

    subject = find("operator", name)
    chosen = dtype if dtype != "any" else _preferred_dtype(subject.info)
    samples = samples_of(subject, dtype_of(chosen)).chosen(_SAMPLES)
    return any(list(sample.tensors()) for sample in samples)


@functools.lru_cache(maxsize=64)
def _kernels_of_operator(name: str, dtype: str) -> frozenset[str] | None:
    from conformance.samples.operators import dtype_of, samples_of
    from conformance.subjects.torch_databases import find

    subject = find("operator", name)
    chosen = dtype if dtype != "any" else _preferred_dtype(subject.info)
    names: set[str] = set()
    for sample in samples_of(subject, dtype_of(chosen)).chosen(_SAMPLES):
        kernels = kernels_of(subject.info.op, sample)
        if kernels is not None:
            names.update(kernels.recordable)
    return frozenset(names) or None


def _preferred_dtype(info: Any) -> str:
    dtype_names = {
        str(dtype).removeprefix("torch.") for dtype in torch_testing_internals.forward_dtypes(info)
    }
    for name in ("float32", "int64", "complex64", "bool"):
        if name in dtype_names:
            return name
    return sorted(dtype_names)[0]
