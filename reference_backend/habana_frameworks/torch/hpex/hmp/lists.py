"""Lists of functions of torch by the precision in which they run in mixed precision."""

from __future__ import annotations

import warnings

import torch

#: Default lists of level O1, from Habana's user guide: functions that run in bfloat16, and in float32.
BF16 = ("addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv")
FP32 = ("batch_norm", "cross_entropy", "log_softmax", "softmax", "nll_loss", "topk")
#: Matrix products and convolutions, the only functions that run in bfloat16 at level O2.
PRODUCTS = frozenset({*BF16, "linear", "matmul", "addbmm", "addmv", "addr", "baddbmm", "conv_transpose1d",
                      "conv_transpose2d", "conv_transpose3d"})  # fmt: skip
#: Functions of several tensors that run in the widest precision of their tensors at level O1.
WIDEST = frozenset({"add", "sub", "mul", "div", "true_divide", "cat", "stack", "where", "addcmul", "addcdiv",
                    "maximum", "minimum", "pow", "atan2", "lerp", "eq", "ne", "lt", "le", "gt",
                    "ge"})  # fmt: skip
#: Functions that use the list entry of another function.
ALIASES = {"linear": "addmm", "matmul": "mm"}


def is_function_name(name: str) -> bool:
    """Return whether torch, its tensors or ``torch.nn.functional`` have a function of this name."""
    return any(hasattr(owner, name) for owner in (torch, torch.Tensor, torch.nn.functional))


def read_names(path: str, default: tuple[str, ...]) -> frozenset[str]:
    """Return the function names in a file with one name per line, or the default if the path is empty.

    The function warns about names that are not functions of torch. Lines that begin with ``#`` are comments.

    Raises:
        FileNotFoundError: the file does not exist or cannot be read.
    """
    if not path:
        return frozenset(default)
    try:
        with open(path) as file:
            names = frozenset(name for line in file if (name := line.strip()) and not name.startswith("#"))
    except OSError as error:
        raise FileNotFoundError(
            f"the list of operators {path} could not be read: {error.strerror}"
        ) from error
    if unknown := sorted(name for name in names if not is_function_name(name)):
        warnings.warn(
            f"{path} lists {', '.join(unknown)}, but torch has no functions of this name, so these lines "
            "have no effect. Use names such as addmm and softmax.",
            RuntimeWarning,
            stacklevel=3,
        )
    return names
