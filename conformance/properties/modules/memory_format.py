"""Modules whose parameters and inputs are in a channels-last memory format."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import tensors
from conformance.oracle.observed_modules import Cotangents, Observation, Procedure, observe
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


#: Modules that torch's database calls with images or volumes in batches.
IMAGES = re.compile(
    r"[23]d$|^convolutional_block$|^nn\.(ELU|MSELoss|NLLLoss|PoissonNLLLoss|CrossEntropyLoss|GroupNorm|Hardshrink|"
    r"Hardswish|LocalResponseNorm|LayerNorm|RMSNorm|ReLU6?|PReLU|Sigmoid|LogSoftmax|Softmin|Tanh|Tanhshrink|"
    r"Threshold|FeatureAlphaDropout|PixelShuffle|PixelUnshuffle|ChannelShuffle|Upsample|Unfold)$"
)


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not IMAGES.search(subject.name):
        return []
    return [name for name in common.dtypes_of(target, subject) if "complex" not in name][:2]


def _rank(arguments: Arguments) -> int | None:
    """Return 4 or 5 if some floating input is an image or a volume in batches, else None."""
    floating = [tensor for tensor in tensors(arguments) if tensor.is_floating_point()]
    return next((tensor.dim() for tensor in floating if tensor.dim() in _FORMATS), None)


def _moved(module: torch.nn.Module, arguments: Arguments) -> Arguments:
    rank = _rank(arguments)
    assert rank is not None
    layout = _FORMATS[rank]
    module.to(memory_format=layout)  # type: ignore[call-overload]

    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone(memory_format=layout) if tensor.dim() == rank else tensor.clone()

    return common.each_tensor(arguments, change)


def _channels_last(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    return observe(module, _moved(module, arguments), cotangents)


FORWARD = Procedure("channels last", _channels_last)
BACKWARD = Procedure("channels last backward", _channels_last, backward=True)


def _able(sample: ModuleSample) -> bool:
    return _rank(sample.call) is not None


@register(
    "memory-format",
    subject_kind="module",
    statement="Channels-last parameters and inputs give the oracle's values, in the CPU's strides.",
    documentation="tensor_attributes.html",
    level="training",
    applies=applies,
    capabilities=("channels_last",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    procedures = [FORWARD, BACKWARD] if target.capable("autograd") else [FORWARD]
    for procedure in procedures:
        for sample, want in common.cases(subject, recorder, procedure, 4, such_that=_able):
            outcome = common.run_on(target, sample, procedure, want)
            if not common.succeeded(
                target, recorder, outcome, f"channels last {sample.describe()}", sample.index
            ):
                continue
            shown, strides = ("output",), True
            if procedure.backward:
                shown, strides = ("gradient",), False
            common.compare_observation(
                target, recorder, subject, sample, outcome.value, want, only=shown, stride=strides
            )
