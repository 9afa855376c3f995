"""Find the chain of operators that converts one layout of a buffer to another layout, and apply chains.

A chain is a list of steps: ("permute", dims), ("reshape", sizes), ("slice", dim, start, end, step),
("select", dim, index), ("expand", sizes) and ("gather", dim, start, ((size, step), ...)). All steps except
"gather" are views. A gather computes indices. It is used only for windows that overlap or whose last row is
incomplete, in place of `as_strided`, which would split the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .description import Layout, NotFusable

Step = tuple[Any, ...]
# add(operator, arguments) -> value. value.meta["val"] is the fake tensor of the value.
Adder = Callable[..., Any]
aten = torch.ops.aten


def _sorted_dims(layout: Layout) -> list[int]:
    """Return the dimensions with more than one element, outermost in memory first."""
    dims = [dim for dim, size in enumerate(layout.sizes) if size != 1]
    return sorted(dims, key=lambda dim: -layout.strides[dim])


def is_regular(layout: Layout) -> bool:
    """Return whether the stride of each dimension exceeds the span of the inner dimensions.

    Elements of a regular layout do not share memory.
    """
    reach = 0
    for dim in reversed(_sorted_dims(layout)):
        if layout.strides[dim] <= reach:
            return False
        reach += (layout.sizes[dim] - 1) * layout.strides[dim]
    return True


def _split_dimension(length: int, dim: int, start: int, target: list[tuple[int, int]]) -> list[Step] | None:
    """Return the steps that replace dimension `dim` by the dimensions in `target`.

    `target` is a list of (size, step), with descending steps. The first element is at index `start` of `dim`,
    which has `length` elements. Return None if an element is out of range.
    """
    if not target:
        return [] if length == 1 else [("select", dim, start)]
    last = start + sum((size - 1) * step for size, step in target)
    if start < 0 or last >= length:
        return None
    size, step = target[0]
    if len(target) == 1:
        if (start, size, step) == (0, length, 1):
            return []
        return [("slice", dim, start, start + (size - 1) * step + 1, step)]
    inner = last - start - (size - 1) * step
    # Split into rows of `step` elements. The first row may begin before `start` if the elements of the inner
    # dimensions are still in one row.
    first = min(start, length - size * step)
    if first < 0 or start - first + inner >= step:
        return [("gather", dim, start, tuple(target))]
    steps: list[Step] = (
        [] if (first, size * step) == (0, length) else [("slice", dim, first, first + size * step, 1)]
    )
    # A reshape needs the sizes of all dimensions, which only the caller knows. So the caller converts "split"
    # to a reshape.
    steps.append(("split", dim, size, step))
    below = _split_dimension(step, dim + 1, start - first, target[1:])
    return None if below is None else steps + below


def recover_view(base: Layout, target: Layout) -> list[Step] | None:
    """Return the chain of steps from layout `base` to layout `target` in the same buffer.

    Returns:
        The steps. None if the dtypes differ, a layout is empty, `base` is not regular, or `base` does not
        contain all elements of `target` in a form that the steps can express.
    """
    if base == target:
        return []
    if base.dtype != target.dtype or target.numel == 0 or base.numel == 0 or not is_regular(base):
        return None
    order = _sorted_dims(base)
    # Merge neighbouring dimensions that are contiguous in memory.
    lines: list[tuple[int, int]] = []
    for dim in order:
        size, stride = base.sizes[dim], base.strides[dim]
        if lines and lines[-1][1] == size * stride:
            lines[-1] = (lines[-1][0] * size, stride)
        else:
            lines.append((size, stride))
    real = [dim for dim in _sorted_dims(target) if target.strides[dim] != 0]
    rest = target.offset - base.offset
    if rest < 0:
        return None
    per_line: list[list[int]] = [[] for _ in lines]
    for dim in real:
        stride = target.strides[dim]
        line = next((index for index, (_, unit) in enumerate(lines) if unit <= stride), None)
        if line is None or stride % lines[line][1]:
            return None
        per_line[line].append(dim)
    shape = [size for size, _ in lines]
    steps: list[Step] = [("permute", order + [dim for dim, size in enumerate(base.sizes) if size == 1])]
    steps.append(("reshape", list(shape)))
    position = 0
    for (size, unit), dims in zip(lines, per_line, strict=True):
        start, rest = divmod(rest, unit)
        parts = [(target.sizes[dim], target.strides[dim] // unit) for dim in dims]
        if start >= size:
            return None
        line_steps = _split_dimension(size, position, start, parts)
        if line_steps is None:
            return None
        for step in line_steps:
            steps.append(_resolve_step(step, shape))
        position += len(dims)
    if rest:
        return None
    recovered = [dim for dims in per_line for dim in dims]
    steps.append(("permute", [recovered.index(dim) for dim in sorted(recovered)]))
    steps.append(("reshape", [1 if stride == 0 else size for size, stride in _sizes_and_strides(target)]))
    steps.append(("expand", list(target.sizes)))
    return _simplify_steps(steps, base.sizes)


def _sizes_and_strides(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(layout.sizes, layout.strides, strict=True))


def _resolve_step(step: Step, shape: list[int]) -> Step:
    """Return the step, or a reshape if the step is "split". Update `shape` to the shape after the step."""
    if step[0] == "split":
        shape[step[1] : step[1] + 1] = [step[2], step[3]]
        return ("reshape", list(shape))
    if step[0] == "select":
        del shape[step[1]]
    elif step[0] == "slice":
        shape[step[1]] = -(-(step[3] - step[2]) // step[4])
    elif step[0] == "gather":
        shape[step[1] : step[1] + 1] = [size for size, _ in step[3]]
    return step


def _simplify_steps(steps: list[Step], sizes: tuple[int, ...]) -> list[Step]:
    """Return the chain without steps that change nothing, and with consecutive reshapes merged."""
    simplified: list[Step] = []
    shapes = [list(sizes)]
    for step in steps:
        if step[0] == "reshape" and simplified and simplified[-1][0] == "reshape":
            simplified.pop()
            shapes.pop()
        shape = list(shapes[-1])
        if step[0] == "permute":
            if step[1] == list(range(len(shape))):
                continue
            shape = [shape[dim] for dim in step[1]]
        elif step[0] in ("reshape", "expand"):
            if step[1] == shape:
                continue
            shape = list(step[1])
        else:
            _resolve_step(step, shape)
        simplified.append(step)
        shapes.append(shape)
    return simplified


def is_view_only(steps: list[Step]) -> bool:
    """Return whether the chain consists of views only, without computed indices."""
    return all(step[0] != "gather" for step in steps)


def _gather_indices(add: Adder, step: Step) -> Any:
    """Return the indices that a "gather" step reads in its dimension, as int64 in the shape of the result."""
    _, _, start, parts = step
    index = None
    for position, (size, stride) in enumerate(parts):
        first = start if position == 0 else 0
        options = {"dtype": torch.int64, "device": torch.device("cpu")}
        line = add(aten.arange.start_step, first, first + size * stride, stride, **options)
        line = add(aten.reshape.default, line, [size] + [1] * (len(parts) - position - 1))
        index = line if index is None else add(aten.add.Tensor, index, line)
    return index


def _apply_step(add: Adder, value: Any, step: Step) -> Any:
    if step[0] == "permute":
        return add(aten.permute.default, value, step[1])
    if step[0] == "reshape":
        return add(aten.reshape.default, value, step[1])
    if step[0] == "expand":
        return add(aten.expand.default, value, step[1])
    if step[0] == "slice":
        return add(aten.slice.Tensor, value, *step[1:])
    if step[0] == "select":
        return add(aten.select.int, value, step[1], step[2])
    return add(aten.index.Tensor, value, [None] * step[1] + [_gather_indices(add, step)])


def apply_view(add: Adder, value: Any, steps: list[Step]) -> Any:
    """Add the nodes that apply the chain to a value, and return the last node.

    Args:
        add: adds an operator to the graph, see `Adder`.
        value: node of the base tensor.
        steps: the chain.
    """
    for step in steps:
        value = _apply_step(add, value, step)
    return value


def write_view(add: Adder, value: Any, steps: list[Step], new: Any) -> Any:
    """Replace the elements of `value` that the chain selects by `new`.

    Args:
        add: adds an operator to the graph, see `Adder`.
        value: node of the base tensor.
        steps: the chain.
        new: node of the new elements, with the shape that the chain produces.

    Returns:
        Node of the new base tensor.

    Raises:
        NotFusable: elements of the view may share memory.
    """
    if not steps:
        return new
    before = [value]
    for step in steps[:-1]:
        before.append(_apply_step(add, before[-1], step))
    for old, step in zip(reversed(before), reversed(steps), strict=True):
        if step[0] == "permute":
            inverse = sorted(range(len(step[1])), key=step[1].__getitem__)
            new = add(aten.permute.default, new, inverse)
        elif step[0] == "reshape":
            new = add(aten.reshape.default, new, list(old.meta["val"].shape))
        elif step[0] == "slice":
            new = add(aten.slice_scatter.default, old, new, *step[1:])
        elif step[0] == "select":
            new = add(aten.select_scatter.default, old, new, step[1], step[2])
        elif step[0] == "gather" and _is_injective(step):
            indices = [None] * step[1] + [_gather_indices(add, step)]
            new = add(aten.index_put.default, old, indices, new)
        else:
            raise NotFusable("elements of a written tensor share memory")
    return new


def _is_injective(step: Step) -> bool:
    reach = 0
    for size, stride in reversed(step[3]):
        if stride <= reach:
            return False
        reach += (size - 1) * stride
    return True
