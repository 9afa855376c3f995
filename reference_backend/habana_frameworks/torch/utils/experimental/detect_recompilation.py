"""Finds the modules of a model whose shapes change, each of which would be a graph compiled anew."""

from __future__ import annotations

import collections
import csv
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_DETAILS = ("Step", "Module", "Class", "New input", "New output", "Comment")
_COUNTS = ("Module name", "Class", "Recompile count")

#: Shapes of a tree of tensors.
Shape = Any


def get_shape(inp: Any) -> Shape:
    """Shapes of tensors in lists, tuples and dicts; other values as their types."""
    if isinstance(inp, torch.Tensor):
        return tuple(inp.shape)
    if isinstance(inp, (list, tuple)):
        return tuple(get_shape(one) for one in inp)
    if isinstance(inp, dict):
        return tuple((key, get_shape(value)) for key, value in inp.items())
    return type(inp).__name__


def data_dynamicity(dl: Iterable[Any]) -> collections.Counter[Shape]:
    """Count the shapes of the batches of a loader, print how many there are, and return the counts."""
    counts = collections.Counter(get_shape(batch) for batch in dl)
    print(f"{sum(counts.values())} batches have {len(counts)} different shapes")
    for shape, count in counts.most_common():
        print(f"{count} times {shape}")
    return counts


class const_shape_dataloader:
    """Batches of a loader, the last dimension of whose tensors is padded with zeros to one length.

    Tensors of less than two dimensions, such as classes, stay as they are.
    """

    def __init__(self, dl: Iterable[Any], maxlen: int) -> None:
        """Wrap a loader; a tensor that is longer than ``maxlen`` is a ValueError."""
        self.loader, self.length = dl, maxlen

    def __iter__(self) -> Iterator[Any]:
        """Iterate over padded batches."""
        for batch in self.loader:
            yield torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: _padded(t, self.length), batch)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.loader)  # type: ignore[arg-type]


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """Watch the shapes of a model's modules; `analyse_dynamicity`, which it gets, writes what was seen.

    That are ``<csv_out>_1.csv``, one row for each call of a module with shapes that it had not had, and
    ``<csv_out>_2.csv``, the number of these beyond the first for each module.

    Args:
        model: the model, which is returned.
        mdlname: name of the model in the files.
        waittime: not used: shapes are known without waiting for the device.
        csv_out: start of the names of the files.
    """
    watch = _Watch(mdlname, csv_out)
    for name, module in model.named_modules():
        module.register_forward_hook(watch.hook(f"{mdlname}.{name}" if name else mdlname), with_kwargs=True)
    object.__setattr__(model, "analyse_dynamicity", watch.write)
    return model


@dataclasses.dataclass
class _Seen:
    step: int
    module: str
    kind: str
    given: Shape
    result: Shape
    comment: str


class _Watch:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.step = 0
        self.rows: list[_Seen] = []
        self.shapes: dict[str, dict[Shape, set[Shape]]] = {}
        self.kinds: dict[str, str] = {}

    def hook(self, name: str) -> _Hook:
        return _Hook(self, name)

    def see(self, name: str, kind: str, given: Shape, result: Shape) -> None:
        known = self.shapes.setdefault(name, {})
        self.kinds[name] = kind
        if given not in known:
            comment = "first call" if not known else "new input"
        elif result not in known[given]:
            comment = "the same input has another output: an operator depends on values"
        else:
            comment = ""
        known.setdefault(given, set()).add(result)
        if comment:
            self.rows.append(_Seen(self.step, name, kind, given, result, comment))
        if name == self.name:
            self.step += 1

    def write(self) -> None:
        """Write both files."""
        with open(f"{self.path}_1.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_DETAILS)
            writer.writerows(dataclasses.astuple(row) for row in self.rows)
        counts = collections.Counter(row.module for row in self.rows if row.comment != "first call")
        with open(f"{self.path}_2.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_COUNTS)
            writer.writerows((name, self.kinds[name], counts[name]) for name in self.shapes)


@dataclasses.dataclass
class _Hook:
    """A hook of one module, which can be pickled with it."""

    watch: _Watch
    name: str

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.watch.see(self.name, type(module).__name__, get_shape((args, kwargs)), get_shape(output))


def _padded(tensor: torch.Tensor, length: int) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    if tensor.size(-1) > length:
        raise ValueError(f"a batch has a tensor of length {tensor.size(-1)}, and maxlen is {length}")
    return torch.nn.functional.pad(tensor, (0, length - tensor.size(-1)))
