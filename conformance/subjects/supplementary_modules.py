"""Modules that torch's database does not have: modules that draw random numbers, change shapes or compute
distances, lazy modules, and modules with shared parameters.

The entries have the attributes of torch's ModuleInfo. If torch's database has an entry with the same name,
the entry of torch is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

_FLOATS = (torch.float32, torch.float64)

Make = Callable[..., torch.Tensor]
#: The args and the kwargs of the constructor, and the args of the call.
Call = tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]


@dataclasses.dataclass
class FunctionArguments:
    """The positional and keyword arguments of a constructor or a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclasses.dataclass
class ExtraInput:
    """The arguments to construct and to call a module, with the attributes of torch's ModuleInput."""

    constructor_input: FunctionArguments
    forward_input: FunctionArguments


@dataclasses.dataclass(frozen=True)
class ExtraInfo:
    """One module, with the attributes of torch's ModuleInfo.

    ``random`` means that the module draws random numbers in training mode, ``stateful`` that it has
    parameters or buffers.
    """

    name: str
    module_cls: type[nn.Module]
    calls: Callable[[Make], Sequence[Call]]
    dtypes: tuple[torch.dtype, ...] = _FLOATS
    train_and_eval_differ: bool = False
    random: bool = False
    stateful: bool = False
    differentiable: bool = True

    def module_inputs_func(
        self, info: Any, *, device: str, dtype: torch.dtype, requires_grad: bool, training: bool
    ) -> list[ExtraInput]:
        """Return the inputs of the module, with the attributes of torch's ModuleInputs."""

        def make(*shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
            tensor = (
                torch.empty(shape, dtype=torch.float64).uniform_(low, high).to(device=device, dtype=dtype)
            )
            return tensor.requires_grad_(requires_grad)

        return [
            ExtraInput(FunctionArguments(args, kwargs), FunctionArguments(call, {}))
            for args, kwargs, call in self.calls(make)
        ]


class Tied(nn.Module):
    """Two linear layers that share a weight, as the embedding and the output layer of a language model do."""

    def __init__(self, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5, device=device, dtype=dtype)
        self.second = nn.Linear(5, 5, bias=False, device=device, dtype=dtype)
        self.second.weight = self.first.weight
        self.register_buffer("offset", torch.ones(5, device=device, dtype=dtype))
        self.register_buffer("count", torch.zeros(3, device=device, dtype=torch.int64))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply both layers and add the offset. Shapes: (n, 5) -> (n, 5)."""
        result: torch.Tensor = self.second(torch.tanh(self.first(input))) + self.offset
        return result


class Block(nn.Sequential):
    """A small convolutional network with the layers that are common in such networks."""

    def __init__(self, *, device: Any = None, dtype: Any = None) -> None:
        kwargs = {"device": device, "dtype": dtype}
        super().__init__(
            nn.Conv2d(3, 4, 3, padding=1, bias=False, **kwargs),
            nn.BatchNorm2d(4, **kwargs),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 3, **kwargs),
        )


def _one_call(*shape: int, args: tuple[Any, ...] = (), **kwargs: Any) -> Callable[[Make], list[Call]]:
    return lambda make: [(args, kwargs, (make(*shape),))]


def _dropout_calls(*shape: int) -> Callable[[Make], list[Call]]:
    return lambda make: [((), {"p": 0.25}, (make(*shape),)), ((), {"p": 0.5}, (make(*shape),))]


def _max_unpool_calls(dims: int) -> Callable[[Make], list[Call]]:
    def calls(make: Make) -> list[Call]:
        if dims == 1:
            indices = torch.tensor([1, 4, 9, 14])
            return [((4,), {}, (make(1, 1, 4), indices.view(1, 1, 4)))]
        if dims == 2:
            indices = torch.tensor([1, 2, 8, 15])
            return [((2,), {}, (make(1, 1, 2, 2), indices.view(1, 1, 2, 2)))]
        indices = torch.tensor([0, 3, 9, 12, 33, 38, 52, 63])
        return [((2,), {}, (make(1, 1, 2, 2, 2), indices.view(1, 1, 2, 2, 2)))]

    return calls


def _embedding_bag_calls(make: Make) -> list[Call]:
    flat, offsets = torch.tensor([1, 5, 2, 0, 7, 3]), torch.tensor([0, 2, 5])
    return [
        ((9, 4), {"mode": "sum"}, (flat, offsets)),
        ((9, 4), {"mode": "mean"}, (flat.view(2, 3),)),
        ((9, 4), {"mode": "max"}, (flat, offsets)),
        ((9, 4), {"mode": "mean", "padding_idx": 2}, (flat, offsets)),
    ]


def _transformer_decoder_calls(make: Make) -> list[Call]:
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0)
    return [((layer, 2), {}, (make(3, 2, 4), make(5, 2, 4)))]


def _adaptive_log_softmax_calls(make: Make) -> list[Call]:
    return [((8, 12, [3, 7]), {}, (make(5, 8), torch.tensor([0, 2, 5, 8, 11])))]


def _upsample_calls(make: Make) -> list[Call]:
    return [
        ((), {"scale_factor": 2, "mode": "nearest"}, (make(2, 3, 4, 5),)),
        ((), {"size": (7, 6), "mode": "bilinear", "align_corners": False}, (make(2, 3, 4, 5),)),
        ((), {"scale_factor": 2, "mode": "linear", "align_corners": True}, (make(2, 3, 4),)),
        ((), {"size": (3, 4, 5), "mode": "trilinear", "align_corners": False}, (make(1, 2, 4, 3, 2),)),
        ((), {"scale_factor": 2, "mode": "bicubic", "align_corners": True}, (make(1, 2, 4, 5),)),
    ]


_ENTRIES = (
    ExtraInfo("nn.Dropout", nn.Dropout, _dropout_calls(64, 32), (*_FLOATS, torch.bfloat16), True, True),
    ExtraInfo("nn.Dropout1d", nn.Dropout1d, _dropout_calls(32, 16, 5), _FLOATS, True, True),
    ExtraInfo("nn.Dropout2d", nn.Dropout2d, _dropout_calls(32, 16, 3, 2), _FLOATS, True, True),
    ExtraInfo("nn.Dropout3d", nn.Dropout3d, _dropout_calls(32, 16, 2, 3, 2), _FLOATS, True, True),
    ExtraInfo("nn.AlphaDropout", nn.AlphaDropout, _dropout_calls(64, 32), _FLOATS, True, True),
    ExtraInfo(
        "nn.FeatureAlphaDropout", nn.FeatureAlphaDropout, _dropout_calls(32, 16, 3, 2), _FLOATS, True, True
    ),
    ExtraInfo("nn.RReLU", nn.RReLU, _one_call(64, 32), _FLOATS, True, True),
    ExtraInfo("nn.EmbeddingBag", nn.EmbeddingBag, _embedding_bag_calls, stateful=True),
    ExtraInfo("nn.Identity", nn.Identity, _one_call(3, 4)),
    ExtraInfo("nn.Flatten", nn.Flatten, _one_call(2, 3, 4)),
    ExtraInfo("nn.Unflatten", nn.Unflatten, _one_call(2, 12, args=(1, (3, 4)))),
    ExtraInfo("nn.PixelShuffle", nn.PixelShuffle, _one_call(2, 8, 3, 2, args=(2,))),
    ExtraInfo("nn.PixelUnshuffle", nn.PixelUnshuffle, _one_call(2, 3, 4, 6, args=(2,))),
    ExtraInfo("nn.ChannelShuffle", nn.ChannelShuffle, _one_call(2, 6, 3, 2, args=(3,))),
    ExtraInfo("nn.Upsample", nn.Upsample, _upsample_calls),
    ExtraInfo("nn.Fold", nn.Fold, _one_call(2, 12, 12, args=((4, 5), (2, 2)))),
    ExtraInfo("nn.Unfold", nn.Unfold, _one_call(2, 3, 4, 5, args=((2, 2),))),
    ExtraInfo("nn.Hardsigmoid", nn.Hardsigmoid, _one_call(4, 5)),
    ExtraInfo("nn.CosineSimilarity", nn.CosineSimilarity, lambda make: [((), {}, (make(4, 5), make(4, 5)))]),
    ExtraInfo("nn.PairwiseDistance", nn.PairwiseDistance, lambda make: [((), {}, (make(4, 5), make(4, 5)))]),
    ExtraInfo(
        "nn.TripletMarginLoss",
        nn.TripletMarginLoss,
        lambda make: [((), {}, (make(4, 5), make(4, 5), make(4, 5)))],
    ),
    ExtraInfo("nn.MaxUnpool1d", nn.MaxUnpool1d, _max_unpool_calls(1)),
    ExtraInfo("nn.MaxUnpool2d", nn.MaxUnpool2d, _max_unpool_calls(2)),
    ExtraInfo("nn.MaxUnpool3d", nn.MaxUnpool3d, _max_unpool_calls(3)),
    ExtraInfo("nn.LazyLinear", nn.LazyLinear, _one_call(4, 6, args=(3,)), stateful=True),
    ExtraInfo(
        "nn.LazyBatchNorm2d",
        nn.LazyBatchNorm2d,
        _one_call(4, 3, 2, 2),
        train_and_eval_differ=True,
        stateful=True,
    ),
    ExtraInfo(
        "nn.AdaptiveLogSoftmaxWithLoss",
        nn.AdaptiveLogSoftmaxWithLoss,
        _adaptive_log_softmax_calls,
        stateful=True,
    ),
    ExtraInfo("nn.TransformerDecoder", nn.TransformerDecoder, _transformer_decoder_calls, stateful=True),
    ExtraInfo("shared_weights", Tied, _one_call(3, 5), stateful=True),
    ExtraInfo("convolutional_block", Block, _one_call(4, 3, 4, 4), train_and_eval_differ=True, stateful=True),
)


def supplementary_entries(database_names: Sequence[str]) -> Sequence[ExtraInfo]:
    """Return the entries whose names torch's database does not have."""
    return [entry for entry in _ENTRIES if entry.name not in database_names]
