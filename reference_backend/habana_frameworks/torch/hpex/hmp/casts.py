"""Cast the arguments of torch's functions to bfloat16 or float32, by lists of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from . import lists

_LEVELS = ("O1", "O2")


class _MixedPrecisionMode(TorchFunctionMode):
    """Torch function mode that casts float32 and bfloat16 tensors on the device before each function call."""

    def __init__(self, level: str, bf16: frozenset[str], fp32: frozenset[str], verbose: bool) -> None:
        super().__init__()
        self.level, self.bf16, self.fp32, self.verbose = level, bf16, fp32, verbose
        self.is_off = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self.is_off or name in _NEVER_CAST or name.startswith("__get") or kwargs.get("out") is not None:
            return func(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if _is_cast(leaf)]
        target = self._cast_dtype_of(name, tensors) if tensors else None
        if target is None:
            return func(*args, **kwargs)
        if self.verbose:
            print("casting ", func, " to ", "to_bf16" if target == torch.bfloat16 else "to_fp32")
        # A normalization function writes its running statistics, so only its first tensor, the input, is
        # cast.
        chosen = tensors[:1] if "norm" in name else tensors
        cast = [leaf.to(target) if any(leaf is tensor for tensor in chosen) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(cast, spec)
        return func(*args, **kwargs)

    def _cast_dtype_of(self, name: str, tensors: list[torch.Tensor]) -> torch.dtype | None:
        """Return the dtype to which a function's tensors are cast, or None if no cast is needed."""
        base = name.strip("_")
        if (name.endswith("_") and not name.endswith("__")) or name.startswith("__i"):
            # An in-place function writes to its first argument, so its dtype is the target.
            return _dtype_unless_all_have_it(tensors, tensors[0].dtype)
        base = {"rmul": "mul", "radd": "add", "rsub": "sub", "truediv": "div", "rtruediv": "div"}.get(
            base, base
        )
        alias = lists.ALIASES.get(base, base)
        if self.level == "O2":
            return torch.bfloat16 if base in lists.PRODUCTS else torch.float32
        if base in self.bf16 or alias in self.bf16:
            return torch.bfloat16
        if base in self.fp32:
            return torch.float32
        if base in lists.WIDEST:
            widest = torch.float32 if any(t.dtype == torch.float32 for t in tensors) else torch.bfloat16
            return _dtype_unless_all_have_it(tensors, widest)
        return _dtype_unless_all_have_it(tensors, tensors[0].dtype)


#: Functions whose arguments are never cast, because they move, convert or query tensors.
_NEVER_CAST = frozenset({
    "to", "float", "half", "bfloat16", "double", "type", "cpu", "hpu", "copy_", "set_", "backward", "detach",
    "requires_grad_", "clone", "item", "tolist", "numpy", "size", "dim", "stride", "__repr__", "__format__",
    "__set__", "__get__", "__delete__", "__setitem__", "grad",
    "register_hook", "retain_grad", "zero_", "record_stream", "data_ptr",
})  # fmt: skip

_active: _MixedPrecisionMode | None = None


def convert(
    opt_level: str = "O1", bf16_file_path: str = "", fp32_file_path: str = "", isVerbose: bool = False
) -> None:
    """Run functions of torch in mixed precision from this call on, in this thread.

    A second call replaces the settings of the first call. At level O1, functions of one list run in bfloat16
    and functions of another list in float32. Arithmetic and comparison functions of several tensors run in
    the widest precision of their tensors, and all other functions in the precision of their first tensor. At
    level O2, matrix products and convolutions run in bfloat16, and all other functions in float32.

    Args:
        opt_level: "O1" or "O2".
        bf16_file_path: file with the functions that run in bfloat16, one name per line; empty for the default
            list.
        fp32_file_path: file with the functions that run in float32; empty for the default list.
        isVerbose: print each cast.

    Raises:
        ValueError: the level is not O1 or O2.
        FileNotFoundError: a file does not exist or cannot be read.
    """
    global _active
    if opt_level not in _LEVELS:
        raise ValueError(f"hmp supports the levels O1 and O2, but opt_level is {opt_level!r}")
    bf16, fp32 = lists.read_names(bf16_file_path, lists.BF16), lists.read_names(fp32_file_path, lists.FP32)
    mode = _MixedPrecisionMode(opt_level, bf16, fp32, isVerbose)
    if _active is None:
        _active = mode
        mode.__enter__()  # type: ignore[no-untyped-call]
    else:
        vars(_active).update({name: value for name, value in vars(mode).items() if name != "inner"})


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Disable casts within a ``with`` block, for example around an optimizer step."""
    if _active is None:
        yield
        return
    before, _active.is_off = _active.is_off, True
    try:
        yield
    finally:
        _active.is_off = before


def _is_cast(leaf: Any) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and leaf.dtype in (torch.float32, torch.bfloat16)
        and leaf.device.type == DEVICE_TYPE
    )


def _dtype_unless_all_have_it(tensors: list[torch.Tensor], dtype: torch.dtype) -> torch.dtype | None:
    return None if all(t.dtype == dtype for t in tensors) else dtype
