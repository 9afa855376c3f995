"""Shared code of the module properties: dtype selection, calls on the target, and comparisons."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework.calls import CallOutcome, attempt_on, one_line, report_error
from conformance.framework.compare import compare_metadata, compare_values, fact
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Rule, Tolerance, rule
from conformance.framework.trees import tree_map
from conformance.model.verdicts import Kind
from conformance.oracle.modules import ModuleReference, cached_module_reference
from conformance.oracle.observed_modules import FORWARD, ModuleProcedure, Observation
from conformance.oracle.precision import HIGH_PRECISION_DTYPES
from conformance.samples import sample_limit
from conformance.samples.copies import WrongCopy, make_copier, report_failed_copy
from conformance.samples.modules import Arguments, ModuleSample, module_samples
from conformance.samples.operators import dtype_name, dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Dtypes in order of preference, for properties that use only the first dtypes.
PREFERRED_DTYPES = ("float32", "bfloat16", "float16", "float64", "complex64", "complex128")

#: Modules that are checked in bfloat16 although torch's database does not list the dtype for them. Mixed
#: precision training runs them in bfloat16.
CHECKED_IN_BFLOAT16 = frozenset(
    {
        "nn.Linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.ConvTranspose2d", "nn.BatchNorm1d",
        "nn.BatchNorm2d", "nn.LayerNorm", "nn.RMSNorm", "nn.Embedding", "nn.EmbeddingBag", "nn.ReLU",
        "nn.LeakyReLU", "nn.GELU", "nn.SiLU", "nn.Sigmoid", "nn.Tanh", "nn.Softmax", "nn.LogSoftmax",
        "nn.CrossEntropyLoss", "nn.MSELoss", "nn.L1Loss", "nn.BCEWithLogitsLoss", "nn.AvgPool2d",
        "nn.AdaptiveAvgPool2d", "nn.MultiheadAttention", "nn.TransformerEncoderLayer", "nn.LSTM", "nn.GRU",
        "nn.Dropout",
    }
)  # fmt: skip

#: Modules whose backward pass computes terms such as ``1 - y * y`` from the result ``y``. Near saturation
#: these terms cancel. The rounding errors of the gradients then have the size of the cotangents, even if the
#: gradients are small.
SATURATING_MODULES = frozenset(
    {"nn.Tanh", "nn.Sigmoid", "nn.GLU", "nn.LogSigmoid", "nn.Softsign", "nn.Tanhshrink"}
)

#: Modules whose results are logarithms of probabilities. Near a probability of 1, terms of size 1 cancel.
#: Rounding errors are therefore relative to 1 in results, and relative to the cotangents in gradients, even
#: if the results and gradients are small.
LOGARITHMIC_MODULES = re.compile(
    r"nn\.(\w*CrossEntropyLoss|(Adaptive)?LogS\w+|Multi\w+SoftMarginLoss|SoftMarginLoss|BCE\w+)"
)

#: The first words of the names of second derivatives. Second derivatives are sums of terms as large as the
#: cotangents, and the terms may cancel. Their rounding errors are therefore relative to the cotangents.
SECOND_DERIVATIVE = "gradient of gradient"

#: Modules that compute matrix products, for which a target may have a lower precision class.
_MATRIX = re.compile(
    r"nn\.(Lazy)?(Linear|Bilinear|Conv|MultiheadAttention|Transformer|RNN|LSTM|GRU|AdaptiveLog).*"
)


def supported_dtypes(target: Target, subject: Subject) -> list[str]:
    """Return the dtypes that torch's database lists and the target declares, in order of preference."""
    claimed = {dtype_name(dtype) for dtype in subject.info.dtypes}
    if subject.name in CHECKED_IN_BFLOAT16:
        claimed.add("bfloat16")
    listed = target.dtype_overrides.get(subject.name, target.dtypes)
    return [name for name in PREFERRED_DTYPES if name in claimed and name in listed]


def first_dtype_only(target: Target, subject: Subject) -> list[str]:
    """Return a list with only the first of :func:`supported_dtypes`, for properties that do not depend on the
    dtype.
    """
    return supported_dtypes(target, subject)[:1]


@functools.cache
def has_parameters_or_buffers(subject: Subject) -> bool:
    """Return whether modules of the subject's class have parameters or buffers.

    The signature of the constructor and the table ``_STATEFUL`` show this.
    """
    if hasattr(subject.info, "stateful"):
        return bool(subject.info.stateful)
    names = inspect.signature(subject.info.module_cls.__init__).parameters
    return "device" in names or subject.name in _STATEFUL


#: Modules with state whose constructors have no parameter ``device``.
_STATEFUL = frozenset(
    {"nn.RNN", "nn.GRU", "nn.LSTM", "nn.TransformerEncoder", "nn.MultiMarginLoss", "nn.BCELoss"}
)


def dtype_under_test(recorder: Recorder) -> torch.dtype:
    """Return the dtype of the current result."""
    return dtype_of(recorder.id.dtype)


def attempt_on_target(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Run ``call`` on the target and return its outcome. All module checks use this function, so that tests
    can inject faults here.
    """
    return attempt_on(target, call)


def require_success(
    target: Target, recorder: Recorder, outcome: CallOutcome, label: str, sample: int | None = None
) -> bool:
    """Return True if the call on the target succeeded. Otherwise record its error as a failure and return
    False.
    """
    if outcome.error is None:
        return True
    if isinstance(outcome.error, WrongCopy):
        report_failed_copy(target, recorder, outcome.error, sample=sample)
    else:
        report_error(target, recorder, outcome.error, label=label, sample=sample)
    return False


def select_samples(
    subject: Subject,
    recorder: Recorder,
    own_limit: int | None = None,
    *,
    such_that: Callable[[ModuleSample], bool] | None = None,
) -> list[ModuleSample]:
    """Return the samples to check, and record their number. Samples that draw random numbers are omitted."""
    samples = module_samples(subject, dtype_under_test(recorder))
    fitting = samples.chosen(sample_limit.limit(own_limit), such_that)
    recorder.samples(len(fitting), samples.available)
    return fitting


def samples_with_references(
    subject: Subject,
    recorder: Recorder,
    procedure: ModuleProcedure = FORWARD,
    own_limit: int | None = None,
    *,
    such_that: Callable[[ModuleSample], bool] | None = None,
) -> Iterator[tuple[ModuleSample, ModuleReference]]:
    """Yield the samples to check, each with its reference. Record a note for a sample without a reference."""
    for sample in select_samples(subject, recorder, own_limit, such_that=such_that):
        reference = cached_module_reference(subject, sample, procedure)
        if reference.error is None:
            yield sample, reference
        else:
            recorder.note(
                f"sample {sample.index} has no reference: the CPU raised {one_line(reference.error)}"
            )
            recorder.samples(-1, 0)


def copy_to_device(target: Target, sample: ModuleSample) -> tuple[torch.nn.Module, Arguments]:
    """Return a new copy of the sample's module, and of its arguments, on the target's device."""
    device = target.torch_device
    return sample.module().to(device), sample.arguments(make_copier(target))


def run_procedure(
    target: Target, sample: ModuleSample, procedure: ModuleProcedure, reference: ModuleReference
) -> CallOutcome:
    """Run a procedure with copies of a sample's module and arguments on the target, and return the
    outcome.
    """

    def run_on_device_copies() -> Observation:
        module, arguments = copy_to_device(target, sample)
        return procedure.run(module, arguments, reference.cotangents)

    return attempt_on_target(target, run_on_device_copies)


@functools.cache
def tolerance_rule_of(name: str, dtype: torch.dtype, direction: str) -> Rule:
    """Return the tolerance rule of the function that the module ``name`` wraps, or the default rule if the
    table of tolerances does not have the function.
    """
    function_name = re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("nn.").removeprefix("Lazy")
    ).lower()
    function_name = re.sub("re_lu", "relu", function_name)
    default = rule("nn.functional", dtype, direction)
    tolerance_rule = default
    for candidate in (f"nn.functional.{function_name}", function_name):
        tolerance_rule = rule(candidate, dtype, direction)
        if tolerance_rule.name != default.name:
            break
    return dataclasses.replace(tolerance_rule, matrix=_MATRIX.fullmatch(name) is not None)


def tolerance_of(
    target: Target,
    subject: Subject,
    dtype: torch.dtype,
    result_dtype: torch.dtype,
    elements: int,
    direction: str = "forward",
) -> Tolerance:
    """Return the tolerance of one result of a module. In float64 the tolerance is doubled, because the
    reference, also computed in float64, has rounding errors of the same size.
    """
    tolerance_rule = tolerance_rule_of(subject.name, dtype, direction)
    bound = tolerance_rule.tolerance(result_dtype, dtype, elements=elements, precision=target.precision)
    return bound if dtype in HIGH_PRECISION_DTYPES else bound.widened(2)


def compare_observation(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: ModuleSample,
    actual: Observation,
    reference: ModuleReference,
    *,
    label: str = "",
    only: Sequence[str] | None = None,
    stride: bool = False,
) -> bool:
    """Compare the names, metadata and values that were observed in a call with the reference.

    ``only`` restricts the comparison to names with one of these prefixes. Every message begins with
    ``label``.
    """
    index, dtype = sample.index, sample.dtype
    expected_values = reference.outputs if reference.outputs is not None else reference.high_precision
    names = [name for name in expected_values if only is None or name.startswith(tuple(only))]
    actual_names = [name for name in actual if only is None or name.startswith(tuple(only))]
    if set(actual_names) != set(names):
        text = (
            f"{label}{sample.describe()} has the observations {', '.join(actual_names)}, expected "
            f"{', '.join(names)}."
        )
        return fact(recorder, False, Kind.METADATA, text, sample=index)
    matches_all = True
    for name in names:
        part_label = f"{label}{name} of {sample.describe()}"
        value, base, high_precision = actual[name], expected_values[name], reference.high_precision[name]
        if not isinstance(base, torch.Tensor):
            matches_all &= fact(
                recorder,
                value == base,
                Kind.VALUE,
                f"{part_label} is {value!r}, expected {base!r}.",
                sample=index,
            )
            continue
        matches = compare_metadata(
            recorder,
            value,
            base,
            label=part_label,
            sample=index,
            device=target.torch_device,
            dtype=reference.outputs is not None,
            stride=stride,
        )
        matches_all &= matches
        if not matches:
            continue
        if not (base.is_floating_point() or base.is_complex()):
            matches_all &= compare_values(recorder, value, base, label=part_label, sample=index)
            continue
        direction = "backward" if name.startswith("gradient") else "forward"
        bound = tolerance_of(target, subject, dtype, value.dtype, reference.elements, direction)
        exact = bound.exact and reference.outputs is not None
        sensitivity = reference.sensitivity.get(name)
        if sensitivity is not None:
            sensitivity = sensitivity + _cancelling_magnitude(subject, name, reference)
        matches_all &= compare_values(
            recorder,
            value,
            base if exact else high_precision,
            tolerance=bound,
            label=part_label,
            sample=index,
            sensitivity=sensitivity,
        )
    return matches_all


def _cancelling_magnitude(subject: Subject, name: str, reference: ModuleReference) -> float:
    """Return the size of the intermediate values that cancel when a module computes the observed value.

    Return 0 if no such values are known.
    """
    logarithmic = LOGARITHMIC_MODULES.fullmatch(subject.name) is not None
    if not name.startswith("gradient"):
        return 1.0 if logarithmic and name.startswith("output") else 0.0
    if logarithmic or subject.name in SATURATING_MODULES or name.startswith(SECOND_DERIVATIVE):
        cotangents = [cotangent for cotangent in reference.cotangents or () if cotangent.numel()]
        return max((float(cotangent.abs().max()) for cotangent in cotangents), default=0.0)
    return 0.0


def with_changed_tensors(arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """Return the arguments with ``change(tensor)`` in place of every tensor. The new tensors are autograd
    leaves.

    If the arguments contain the same tensor twice, ``change`` is called once.
    """
    leaves: dict[int, torch.Tensor] = {}

    def changed_leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in leaves:
            with torch.no_grad():
                leaves[id(value)] = change(value.detach()).requires_grad_(value.requires_grad)
        return leaves[id(value)]

    changed: Arguments = tree_map(changed_leaf, arguments)
    return changed


def parameters_and_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name. A shared tensor appears under each of its names."""
    state: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    state.update(module.named_buffers(remove_duplicate=False))
    return state


def compare_state(
    recorder: Recorder,
    actual: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    *,
    label: str,
    sample: int | None = None,
    device: torch.device | None = None,
) -> bool:
    """Compare names, metadata, devices and bits of parameters and buffers."""
    text = f"{label} has the entries {', '.join(actual)}, expected {', '.join(expected)}."
    if not fact(recorder, list(actual) == list(expected), Kind.STATE, text, sample=sample):
        return False
    matches_all = True
    for name, base in expected.items():
        part_label = f"{name} of {label}"
        if compare_metadata(recorder, actual[name], base, label=part_label, sample=sample, device=device):
            matches_all &= compare_values(
                recorder, actual[name], base, label=part_label, sample=sample, kind=Kind.STATE
            )
        else:
            matches_all = False
    return matches_all
