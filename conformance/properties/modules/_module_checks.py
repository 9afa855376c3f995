"""The shared parts of the module properties: their dtypes, calls on the target, and comparisons."""

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
from conformance.oracle.modules import ModuleReference, expected
from conformance.oracle.observed_modules import FORWARD, Observation, Procedure
from conformance.oracle.precision import UP
from conformance.samples import sample_limit
from conformance.samples.copies import WrongCopy, report_copy
from conformance.samples.modules import Arguments, ModuleSample, module_samples
from conformance.samples.operators import dtype_name, dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Dtypes in the order in which a property that takes only the first few prefers them.
PREFERRED = ("float32", "bfloat16", "float16", "float64", "complex64", "complex128")

#: Modules that are checked in bfloat16 although torch's database does not claim it for them: those that mixed
#: precision training runs in bfloat16.
BFLOAT16 = frozenset(
    {
        "nn.Linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.ConvTranspose2d", "nn.BatchNorm1d",
        "nn.BatchNorm2d", "nn.LayerNorm", "nn.RMSNorm", "nn.Embedding", "nn.EmbeddingBag", "nn.ReLU",
        "nn.LeakyReLU", "nn.GELU", "nn.SiLU", "nn.Sigmoid", "nn.Tanh", "nn.Softmax", "nn.LogSoftmax",
        "nn.CrossEntropyLoss", "nn.MSELoss", "nn.L1Loss", "nn.BCEWithLogitsLoss", "nn.AvgPool2d",
        "nn.AdaptiveAvgPool2d", "nn.MultiheadAttention", "nn.TransformerEncoderLayer", "nn.LSTM", "nn.GRU",
        "nn.Dropout",
    }
)  # fmt: skip

#: Modules whose backward is made from saved results of order one, which cancel when the function saturates
#: (``1 - y * y``): their gradients round at the size of the cotangents, however small they are themselves.
SATURATING = frozenset({"nn.Tanh", "nn.Sigmoid", "nn.GLU", "nn.LogSigmoid", "nn.Softsign", "nn.Tanhshrink"})

#: Modules whose results are logarithms of probabilities: near a probability of one these cancel, so results
#: round at order one, and gradients at the size of the cotangents, however small they are.
LOGARITHMIC = re.compile(
    r"nn\.(\w*CrossEntropyLoss|(Adaptive)?LogS\w+|Multi\w+SoftMarginLoss|SoftMarginLoss|BCE\w+)"
)

#: Second derivatives are sums of terms of the size of the cotangents, which may cancel.
SECOND = "gradient of gradient"

#: Modules whose sums of products may run in a precision class of their own.
_MATRIX = re.compile(
    r"nn\.(Lazy)?(Linear|Bilinear|Conv|MultiheadAttention|Transformer|RNN|LSTM|GRU|AdaptiveLog).*"
)


def dtypes_of(target: Target, subject: Subject) -> list[str]:
    """Return the dtypes that torch's database claims and the target declares, preferred ones first."""
    claimed = {dtype_name(dtype) for dtype in subject.info.dtypes}
    if subject.name in BFLOAT16:
        claimed.add("bfloat16")
    listed = target.dtype_overrides.get(subject.name, target.dtypes)
    return [name for name in PREFERRED if name in claimed and name in listed]


def first_dtype(target: Target, subject: Subject) -> list[str]:
    """Return the most preferred dtype alone, for properties that do not depend on the dtype."""
    return dtypes_of(target, subject)[:1]


@functools.cache
def has_parameters(subject: Subject) -> bool:
    """Return whether the module's class makes parameters or buffers, judged by its constructor's
    signature.
    """
    if hasattr(subject.info, "stateful"):
        return bool(subject.info.stateful)
    names = inspect.signature(subject.info.module_cls.__init__).parameters
    return "device" in names or subject.name in _STATEFUL


#: Modules with state whose constructors take no ``device`` by name.
_STATEFUL = frozenset(
    {"nn.RNN", "nn.GRU", "nn.LSTM", "nn.TransformerEncoder", "nn.MultiMarginLoss", "nn.BCELoss"}
)


def dtype_under_test(recorder: Recorder) -> torch.dtype:
    """Return the dtype of the result that is being recorded."""
    return dtype_of(recorder.id.dtype)


def on_target(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of work on the target. All work of a module property there goes through here."""
    return attempt_on(target, call)


def succeeded(
    target: Target, recorder: Recorder, outcome: CallOutcome, label: str, sample: int | None = None
) -> bool:
    """Return whether the work on the target succeeded; its error is recorded."""
    if outcome.error is None:
        return True
    if isinstance(outcome.error, WrongCopy):
        report_copy(target, recorder, outcome.error, sample=sample)
    else:
        report_error(target, recorder, outcome.error, label=label, sample=sample)
    return False


def chosen(
    subject: Subject,
    recorder: Recorder,
    own_limit: int | None = None,
    *,
    such_that: Callable[[ModuleSample], bool] | None = None,
) -> list[ModuleSample]:
    """Return the samples of deterministic values that a property takes, counted."""
    samples = module_samples(subject, dtype_under_test(recorder))
    fitting = samples.chosen(sample_limit.limit(own_limit), such_that)
    recorder.samples(len(fitting), samples.available)
    return fitting


def cases(
    subject: Subject,
    recorder: Recorder,
    procedure: Procedure = FORWARD,
    own_limit: int | None = None,
    *,
    such_that: Callable[[ModuleSample], bool] | None = None,
) -> Iterator[tuple[ModuleSample, ModuleReference]]:
    """Yield the chosen samples with the oracle's values; those without an oracle are noted and left out."""
    for sample in chosen(subject, recorder, own_limit, such_that=such_that):
        want = expected(subject, sample, procedure)
        if want.error is None:
            yield sample, want
        else:
            recorder.note(f"sample {sample.index} has no oracle: the CPU raised {one_line(want.error)}")
            recorder.samples(-1, 0)


def on_device(target: Target, sample: ModuleSample) -> tuple[torch.nn.Module, Arguments]:
    """Return private copies of the module and the arguments on the target's device."""
    device = target.torch_device
    return sample.module().to(device), sample.arguments(device)


def run_on(target: Target, sample: ModuleSample, procedure: Procedure, want: ModuleReference) -> CallOutcome:
    """Return the observations of a procedure on the target."""

    def call() -> Observation:
        module, arguments = on_device(target, sample)
        return procedure.run(module, arguments, want.cotangents)

    return on_target(target, call)


@functools.cache
def rule_of(name: str, dtype: torch.dtype, direction: str) -> Rule:
    """Return the tolerance rule of the function that a module wraps, if the table knows it, else
    the default.
    """
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("nn.").removeprefix("Lazy")).lower()
    word = re.sub("re_lu", "relu", word)
    default = rule("nn.functional", dtype, direction)
    applied = default
    for candidate in (f"nn.functional.{word}", word):
        applied = rule(candidate, dtype, direction)
        if applied.name != default.name:
            break
    return dataclasses.replace(applied, matrix=_MATRIX.fullmatch(name) is not None)


def bound_of(
    target: Target,
    subject: Subject,
    dtype: torch.dtype,
    result: torch.dtype,
    elements: int,
    direction: str = "forward",
) -> Tolerance:
    """Return the bound of one result; twice as wide in float64, in which the oracle may be off as
    far itself.
    """
    applied = rule_of(subject.name, dtype, direction)
    bound = applied.tolerance(result, dtype, elements=elements, precision=target.precision)
    return bound if dtype in UP else bound.widened(2)


def compare_observation(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: ModuleSample,
    actual: Observation,
    want: ModuleReference,
    *,
    label: str = "",
    only: Sequence[str] | None = None,
    stride: bool = False,
) -> bool:
    """Compare all observations of a call with the oracle's: names, metadata, values within the tolerance.

    ``only`` restricts it to names that begin with one of these words; ``what`` begins every message.
    """
    index, dtype = sample.index, sample.dtype
    plain = want.outputs if want.outputs is not None else want.high_precision
    names = [name for name in plain if only is None or name.startswith(tuple(only))]
    shown = [name for name in actual if only is None or name.startswith(tuple(only))]
    if set(shown) != set(names):
        text = f"{label}{sample.describe()} shows {', '.join(shown)}, expected {', '.join(names)}."
        return fact(recorder, False, Kind.METADATA, text, sample=index)
    good = True
    for name in names:
        part_label = f"{label}{name} of {sample.describe()}"
        value, base, precise = actual[name], plain[name], want.high_precision[name]
        if not isinstance(base, torch.Tensor):
            good &= fact(
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
            dtype=want.outputs is not None,
            stride=stride,
        )
        good &= matches
        if not matches:
            continue
        if not (base.is_floating_point() or base.is_complex()):
            good &= compare_values(recorder, value, base, label=part_label, sample=index)
            continue
        direction = "backward" if name.startswith("gradient") else "forward"
        bound = bound_of(target, subject, dtype, value.dtype, want.elements, direction)
        exact = bound.exact and want.outputs is not None
        spread = want.sensitivity.get(name)
        if spread is not None:
            spread = spread + _intermediates(subject, name, want)
        good &= compare_values(
            recorder,
            value,
            base if exact else precise,
            tolerance=bound,
            label=part_label,
            sample=index,
            spread=spread,
        )
    return good


def _intermediates(subject: Subject, name: str, want: ModuleReference) -> float:
    """Return the size of intermediate values that cancel, if it is known, else 0."""
    logarithmic = LOGARITHMIC.fullmatch(subject.name) is not None
    if not name.startswith("gradient"):
        return 1.0 if logarithmic and name.startswith("output") else 0.0
    if logarithmic or subject.name in SATURATING or name.startswith(SECOND):
        cotangents = [cotangent for cotangent in want.cotangents or () if cotangent.numel()]
        return max((float(cotangent.abs().max()) for cotangent in cotangents), default=0.0)
    return 0.0


def each_tensor(arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """Return the arguments with every tensor changed, as new leaves; one passed twice stays one tensor."""
    leaves: dict[int, torch.Tensor] = {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in leaves:
            with torch.no_grad():
                leaves[id(value)] = change(value.detach()).requires_grad_(value.requires_grad)
        return leaves[id(value)]

    changed: Arguments = tree_map(leaf, arguments)
    return changed


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and buffers by name, shared ones under each of their names."""
    state: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    state.update(module.named_buffers(remove_duplicate=False))
    return state


def compare_state(
    recorder: Recorder,
    actual: dict[str, torch.Tensor],
    want: dict[str, torch.Tensor],
    *,
    label: str,
    sample: int | None = None,
    device: torch.device | None = None,
) -> bool:
    """Compare names, metadata, devices and bits of parameters and buffers."""
    text = f"{label} has the entries {', '.join(actual)}, expected {', '.join(want)}."
    if not fact(recorder, list(actual) == list(want), Kind.STATE, text, sample=sample):
        return False
    good = True
    for name, base in want.items():
        part_label = f"{name} of {label}"
        if compare_metadata(recorder, actual[name], base, label=part_label, sample=sample, device=device):
            good &= compare_values(
                recorder, actual[name], base, label=part_label, sample=sample, kind=Kind.STATE
            )
        else:
            good = False
    return good
