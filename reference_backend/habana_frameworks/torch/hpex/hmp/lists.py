"""Lists of operators by the precision that they run in."""

from __future__ import annotations

#: The guide's lists of level O1.
BF16 = ("addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv")
FP32 = ("batch_norm", "cross_entropy", "log_softmax", "softmax", "nll_loss", "topk")
#: Products and convolutions, the only ones in bfloat16 at level O2.
PRODUCTS = frozenset({*BF16, "linear", "matmul", "addbmm", "addmv", "addr", "baddbmm", "conv_transpose1d",
                      "conv_transpose2d", "conv_transpose3d"})  # fmt: skip
#: Operators of several tensors, which run in the widest precision among them.
WIDEST = frozenset({"add", "sub", "mul", "div", "true_divide", "cat", "stack", "where", "addcmul", "addcdiv",
                    "maximum", "minimum", "pow", "atan2", "lerp", "eq", "ne", "lt", "le", "gt",
                    "ge"})  # fmt: skip
#: Functions that are an operator of the lists under another name.
ALIASES = {"linear": "addmm", "matmul": "mm"}


def read(path: str, default: tuple[str, ...]) -> frozenset[str]:
    """Names in a file, one a line; the default without a path.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path:
        return frozenset(default)
    try:
        with open(path) as file:
            return frozenset(word for line in file if (word := line.strip()) and not word.startswith("#"))
    except OSError as error:
        raise FileNotFoundError(f"the list of operators {path} cannot be read: {error.strerror}") from error
