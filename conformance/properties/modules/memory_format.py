"""Property ``memory-format``: modules compute correctly with channels-last parameters and inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import tensors
from conformance.oracle.observed_modules import Cotangents, ModuleProcedure, Observation, observe_call
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


#: Modules that torch's database calls with batches of images or volumes.
IMAGE_MODULES = re.compile(
    r"[23]d$|^convolutional_block$|^nn\.(ELU|MSELoss|NLLLoss|PoissonNLLLoss|CrossEntropyLoss|GroupNorm|Hardshrink|"
    r"Hardswish|LocalResponseNorm|LayerNorm|RMSNorm|ReLU6?|PReLU|Sigmoid|LogSoftmax|Softmin|Tanh|Tanhshrink|"
    r"Threshold|FeatureAlphaDropout|PixelShuffle|PixelUnshuffle|ChannelShuffle|Upsample|Unfold)$"
)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if not IMAGE_MODULES.search(subject.name):
        return []
    return [name for name in common.supported_dtypes(target, subject) if "complex" not in name][:2]


def _rank_of_image_input(arguments: Arguments) -> int | None:
    """Return the rank of the first floating-point input with rank 4 or 5 (images or volumes), or None."""
    floating = [tensor for tensor in tensors(arguments) if tensor.is_floating_point()]
    return next((tensor.dim() for tensor in floating if tensor.dim() in _FORMATS), None)


def _to_channels_last(module: torch.nn.Module, arguments: Arguments) -> Arguments:
    rank = _rank_of_image_input(arguments)
    assert rank is not None
    layout = _FORMATS[rank]
    module.to(memory_format=layout)  # type: ignore[call-overload]

    def clone_in_layout(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone(memory_format=layout) if tensor.dim() == rank else tensor.clone()

    return common.with_changed_tensors(arguments, clone_in_layout)


def _run_channels_last(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    return observe_call(module, _to_channels_last(module, arguments), cotangents)


FORWARD = ModuleProcedure("channels last", _run_channels_last)
BACKWARD = ModuleProcedure("channels last backward", _run_channels_last, backward=True)


def _has_images(sample: ModuleSample) -> bool:
    return _rank_of_image_input(sample.call) is not None


@register(
    "memory-format",
    subject_kind="module",
    statement="With channels-last parameters and inputs, values equal the reference and strides "
    "equal the CPU's strides.",
    documentation="tensor_attributes.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("channels_last",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run the module channels-last on the target and compare outputs, strides and gradients with the
    reference.
    """
    procedures = [FORWARD, BACKWARD] if target.capable("autograd") else [FORWARD]
    for procedure in procedures:
        for sample, reference in common.samples_with_references(
            subject, recorder, procedure, 4, such_that=_has_images
        ):
            outcome = common.run_procedure(target, sample, procedure, reference)
            if not common.require_success(
                target, recorder, outcome, f"channels last {sample.describe()}", sample.index
            ):
                continue
            prefixes, strides = ("output",), True
            if procedure.backward:
                prefixes, strides = ("gradient",), False
            common.compare_observation(
                target, recorder, subject, sample, outcome.value, reference, only=prefixes, stride=strides
            )
