"""Find the modules of a model whose shapes change, because each new shape recompiles a graph."""

from __future__ import annotations

import collections
import csv
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_DETAILS = ("Step", "Module", "Class", "New input", "New output", "Comment")
_COUNTS = ("Module name", "Class", "Recompile count")

#: The shape of a tensor, or the nested shapes of a list, tuple or dict (see `get_shape`).
Shape = Any


def get_shape(inp: Any) -> Shape:
    """Return the shape of a tensor, or the nested shapes of a list, tuple or dict.

    A value of any other type is represented by the name of its type.
    """
    if isinstance(inp, torch.Tensor):
        return tuple(inp.shape)
    if isinstance(inp, (list, tuple)):
        return tuple(get_shape(item) for item in inp)
    if isinstance(inp, dict):
        return tuple((key, get_shape(value)) for key, value in inp.items())
    return type(inp).__name__


def data_dynamicity(dl: Iterable[Any]) -> collections.Counter[Shape]:
    """Count the batches of a data loader by shape, print the counts and return them."""
    counts = collections.Counter(get_shape(batch) for batch in dl)
    print(f"{sum(counts.values())} batches have {len(counts)} different shapes")
    for shape, count in counts.most_common():
        print(f"{count} times {shape}")
    return counts


class const_shape_dataloader:
    """Wrapper of a data loader that pads the last dimension of each tensor with zeros to one length.

    Tensors with fewer than two dimensions, such as labels, are unchanged.
    """

    def __init__(self, dl: Iterable[Any], maxlen: int) -> None:
        """Wrap the data loader ``dl``. A tensor whose last dimension exceeds ``maxlen`` raises ValueError."""
        self.loader, self.length = dl, maxlen

    def __iter__(self) -> Iterator[Any]:
        """Yield the padded batches."""
        for batch in self.loader:
            yield torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda t: _pad_last_dimension(t, self.length), batch
            )

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.loader)  # type: ignore[arg-type]


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """Record the input and output shapes of all modules of a model in later calls, and return the model.

    The model gets a method ``analyse_dynamicity``, which writes two files. ``<csv_out>_1.csv`` has one row
    for each call of a module with new shapes. ``<csv_out>_2.csv`` has, for each module, the number of these
    rows without the module's first call.

    Args:
        model: the model to watch.
        mdlname: name of the model in the files.
        waittime: not used, because shapes are known without waiting for the device.
        csv_out: prefix of the file names.
    """
    watch = _ShapeRecorder(mdlname, csv_out)
    for name, module in model.named_modules():
        module.register_forward_hook(watch.hook(f"{mdlname}.{name}" if name else mdlname), with_kwargs=True)
    object.__setattr__(model, "analyse_dynamicity", watch.write)
    return model


@dataclasses.dataclass
class _ShapeChange:
    step: int
    module: str
    kind: str
    given: Shape
    result: Shape
    comment: str


class _ShapeRecorder:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.step = 0
        self.rows: list[_ShapeChange] = []
        self.shapes: dict[str, dict[Shape, set[Shape]]] = {}
        self.kinds: dict[str, str] = {}

    def hook(self, name: str) -> _Hook:
        return _Hook(self, name)

    def record_call(self, name: str, kind: str, input_shapes: Shape, result: Shape) -> None:
        known_shapes = self.shapes.setdefault(name, {})
        self.kinds[name] = kind
        if input_shapes not in known_shapes:
            comment = "first call" if not known_shapes else "new input"
        elif result not in known_shapes[input_shapes]:
            comment = "different output shapes for known input shapes: an operator depends on values"
        else:
            comment = ""
        known_shapes.setdefault(input_shapes, set()).add(result)
        if comment:
            self.rows.append(_ShapeChange(self.step, name, kind, input_shapes, result, comment))
        if name == self.name:
            self.step += 1

    def write(self) -> None:
        """Write the file of module calls with new shapes, and the file of recompilation counts."""
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
    """A forward hook that records the shapes of one module. It is a class so that it can be pickled."""

    watch: _ShapeRecorder
    name: str

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.watch.record_call(self.name, type(module).__name__, get_shape((args, kwargs)), get_shape(output))


def _pad_last_dimension(tensor: torch.Tensor, length: int) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    if tensor.size(-1) > length:
        raise ValueError(f"a batch has a tensor of length {tensor.size(-1)}, but maxlen is {length}")
    return torch.nn.functional.pad(tensor, (0, length - tensor.size(-1)))
