"""Example calls of the operators that a target file can list for autocast, by operator and overload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance.behaviours.lab import Lab


class ArgumentMaker:
    """Makes the tensors of one call of an operator.

    Each floating tensor is a leaf that requires grad, like a weight, because autocast caches casts only of
    such leaves.
    """

    def __init__(self, lab: Lab, dtype: torch.dtype) -> None:
        self._lab = lab
        self.dtype = dtype

    def values(self, *shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        """Return multiples of 1/8 from ``low`` to ``high``. Every 16-bit dtype represents them exactly, so
        that casts lose nothing.
        """
        steps = self._lab.integers(*shape, low=int(low * 8), high=int(high * 8) + 1, dtype=torch.float32)
        return (steps / 8).to(self.dtype).detach().requires_grad_()

    def positive_values(self, *shape: int) -> torch.Tensor:
        """Return values from 0.5 to 2."""
        return self.values(*shape, low=0.5, high=2.0)

    def random_signs(self, *shape: int) -> torch.Tensor:
        """Return values -1 and 1 that do not require grad."""
        return (self._lab.integers(*shape, low=0, high=2, dtype=torch.float32) * 2 - 1).to(self.dtype)

    def indices(self, *numbers: int) -> torch.Tensor:
        """Return an int64 tensor of these numbers."""
        return self._lab.put(list(numbers))


#: A function that makes the arguments of a call. If the last argument is a dict, this dict holds the keyword
#: arguments.
MakeArguments = Callable[[ArgumentMaker], Sequence[Any]]


def _unary_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4, low=-0.5, high=0.5)]


def _positive_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.positive_values(3, 4)]


def _binary_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4), make.positive_values(3, 4)]


def _tensor_and_number_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4), 4]


def _loss_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4), make.values(3, 4)]


def _signed_loss_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4), make.random_signs(3, 4)]


def _class_loss_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(3, 4), make.indices(0, 1, 3)]


def _tensor_list_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [[make.values(2, 3), make.values(2, 3)]]


def _convolution_arguments(dimensions: int, *, padding: str | None = None) -> MakeArguments:
    def make_arguments(make: ArgumentMaker) -> Sequence[Any]:
        call_arguments = [
            make.values(1, 2, *([4] * dimensions)),
            make.values(2, 2, *([2] * dimensions)),
            make.values(2),
        ]
        return call_arguments if padding is None else [*call_arguments, [1] * dimensions, padding]

    return make_arguments


def _batch_norm_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(2, 4, 3), make.positive_values(4), make.values(4), None, None, True, 0.1, 1e-5, False]


def _embedding_bag_arguments(make: ArgumentMaker) -> Sequence[Any]:
    return [make.values(4, 3), make.indices(0, 2, 3, 1), make.indices(0, 2)]


#: The functions that make the arguments of example calls, by operator and overload. Dropout is called with
#: arguments for which its result is not random.
CALLS: Mapping[str, Mapping[str, MakeArguments]] = {
    "addmm": {"default": lambda m: [m.values(2, 4), m.values(2, 3), m.values(3, 4)]},
    "addbmm": {"default": lambda m: [m.values(2, 4), m.values(3, 2, 3), m.values(3, 3, 4)]},
    "baddbmm": {"default": lambda m: [m.values(3, 2, 4), m.values(3, 2, 3), m.values(3, 3, 4)]},
    "bmm": {"default": lambda m: [m.values(3, 2, 3), m.values(3, 3, 4)]},
    "mm": {"default": lambda m: [m.values(2, 3), m.values(3, 4)]},
    "matmul": {"default": lambda m: [m.values(3, 2, 3), m.values(3, 4)]},
    "mv": {"default": lambda m: [m.values(2, 3), m.values(3)]},
    "dot": {"default": lambda m: [m.values(3), m.values(3)]},
    "linear": {"default": lambda m: [m.values(2, 3), m.values(4, 3), m.values(4)]},
    "linalg_vecdot": {"default": lambda m: [m.values(2, 3), m.values(2, 3)]},
    "conv1d": {"default": _convolution_arguments(1), "padding": _convolution_arguments(1, padding="same")},
    "conv2d": {"default": _convolution_arguments(2), "padding": _convolution_arguments(2, padding="same")},
    "conv3d": {"default": _convolution_arguments(3), "padding": _convolution_arguments(3, padding="same")},
    "conv_transpose1d": {"default": _convolution_arguments(1)},
    "conv_transpose2d": {"input": _convolution_arguments(2)},
    "conv_transpose3d": {"input": _convolution_arguments(3)},
    "scaled_dot_product_attention": {
        "default": lambda m: [m.values(1, 2, 3, 4), m.values(1, 2, 3, 4), m.values(1, 2, 3, 4)]
    },
    "batch_norm": {"default": _batch_norm_arguments},
    "instance_norm": {"default": _batch_norm_arguments},
    "layer_norm": {"default": lambda m: [m.values(3, 4), [4], m.positive_values(4), m.values(4)]},
    "group_norm": {"default": lambda m: [m.values(2, 4, 3), 2, m.positive_values(4), m.values(4)]},
    "dropout": {"default": lambda m: [m.values(3, 4), 0.0, True]},
    "feature_dropout": {"default": lambda m: [m.values(3, 4), 0.0, True]},
    "leaky_relu": {"default": _unary_arguments},
    "mean": {"default": _unary_arguments, "dim": lambda m: [m.values(3, 4), [1]]},
    "mul": {"Tensor": _binary_arguments, "Scalar": _tensor_and_number_arguments},
    "softmax": {"int": lambda m: [m.values(3, 4), 1]},
    "log_softmax": {"int": lambda m: [m.values(3, 4), 1]},
    **{
        name: {"default": _unary_arguments}
        for name in ("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log1p", "sinh", "softplus", "tan")
    },
    **{name: {"default": _positive_arguments} for name in ("log", "log10", "log2", "reciprocal", "rsqrt")},
    "atan2": {"default": _binary_arguments},
    "addcdiv": {"default": lambda m: [m.values(3, 4), m.values(3, 4), m.positive_values(3, 4)]},
    "addcmul": {"default": lambda m: [m.values(3, 4), m.values(3, 4), m.values(3, 4)]},
    "bilinear": {"default": lambda m: [m.values(2, 3), m.values(2, 4), m.values(5, 3, 4)]},
    **{
        name: {
            "Tensor": _binary_arguments,
            "Scalar": _tensor_and_number_arguments,
            "Tensor_mode": lambda m: [*_binary_arguments(m), {"rounding_mode": None}],
            "Scalar_mode": lambda m: [*_tensor_and_number_arguments(m), {"rounding_mode": None}],
        }
        for name in ("div", "divide")
    },
    "true_divide": {"Tensor": _binary_arguments, "Scalar": _tensor_and_number_arguments},
    "pow": {
        "Tensor_Tensor": lambda m: [m.positive_values(3, 4), m.positive_values(3, 4)],
        "Tensor_Scalar": lambda m: [m.positive_values(3, 4), 3],
        "Scalar": lambda m: [2, m.positive_values(3, 4)],
    },
    "add": {"Tensor": _binary_arguments},
    "sub": {"Tensor": _binary_arguments},
    "cat": {"default": _tensor_list_arguments},
    "stack": {"default": _tensor_list_arguments},
    "index_copy": {"default": lambda m: [m.values(3, 4), 0, m.indices(2, 0), m.values(2, 4)]},
    "logsumexp": {"default": lambda m: [m.values(3, 4), [1]]},
    "renorm": {"default": lambda m: [m.values(3, 4), 2, 0, 0.5]},
    "topk": {"default": lambda m: [m.values(3, 4), 2]},
    "dist": {"default": _loss_arguments},
    "cdist": {"default": lambda m: [m.values(3, 4), m.values(2, 4)]},
    "pdist": {"default": lambda m: [m.values(3, 4)]},
    "cosine_similarity": {"default": _loss_arguments},
    "prod": {"default": _positive_arguments, "dim_int": lambda m: [m.positive_values(3, 4), 1]},
    "trace": {"default": _unary_arguments},
    "embedding": {"default": lambda m: [m.values(4, 3), m.indices(0, 3, 1)]},
    "embedding_bag": {
        "default": _embedding_bag_arguments,
        "padding_idx": lambda m: [*_embedding_bag_arguments(m), False, 0, False, None, False, 2],
    },
    "binary_cross_entropy": {
        "default": lambda m: [m.values(3, 4, low=0.125, high=0.875), m.values(3, 4, low=0.0)]
    },
    "binary_cross_entropy_with_logits": {"default": lambda m: [m.values(3, 4), m.values(3, 4, low=0.0)]},
    "cosine_embedding_loss": {"default": lambda m: [*_loss_arguments(m), m.random_signs(3)]},
    "cross_entropy_loss": {"default": _class_loss_arguments},
    "nll_loss": {"default": _class_loss_arguments},
    "multi_margin_loss": {"default": _class_loss_arguments},
    "multilabel_margin_loss": {"default": lambda m: [m.values(1, 4), m.indices(1, 2, -1, 0).reshape(1, 4)]},
    **{
        name: {"default": _loss_arguments} for name in ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")
    },
    "kl_div": {
        "default": lambda m: [m.values(3, 4), m.positive_values(3, 4)]
    },  # positive: kl_div computes the logarithm of its target
    **{name: {"default": _signed_loss_arguments} for name in ("hinge_embedding_loss", "soft_margin_loss")},
    "margin_ranking_loss": {"default": lambda m: [*_loss_arguments(m), m.random_signs(3, 4)]},
    "poisson_nll_loss": {"default": lambda m: [*_loss_arguments(m), True, False, 1e-8, 1]},
    "triplet_margin_loss": {"default": lambda m: [m.values(3, 4), m.values(3, 4), m.values(3, 4)]},
}


def autocast_calls(
    lab: Lab, names: Sequence[str], dtype: torch.dtype
) -> Iterator[tuple[str, Any, Sequence[Any], Mapping[str, Any]]]:
    """Yield a call for each overload that ``CALLS`` has for the operators ``names``: call name, overload,
    arguments and options. Floating inputs have dtype ``dtype``.
    """
    for name in names:
        for overload, arguments in CALLS.get(name, {}).items():
            call_arguments = [*arguments(ArgumentMaker(lab, dtype))]
            options = call_arguments.pop() if isinstance(call_arguments[-1], dict) else {}
            call_name = name if overload == "default" else f"{name}.{overload}"
            yield call_name, getattr(getattr(torch.ops.aten, name), overload), call_arguments, options
