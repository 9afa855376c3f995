"""Choose the tensors through which fused code accesses the memory of its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from . import view_recovery
from .description import Description, Layout, NotFusable, tensor_refs


def without_expanded_dims(layout: Layout) -> Layout:
    """Return the layout with size 1 in each dimension that repeats the same memory (stride 0)."""
    sizes = tuple(
        1 if stride == 0 and size > 1 else size
        for size, stride in zip(layout.sizes, layout.strides, strict=True)
    )
    return Layout(layout.dtype, sizes, layout.strides, layout.offset)


def _group_overlapping(layouts: Iterable[Layout]) -> list[list[Layout]]:
    """Group layouts whose spans overlap, directly or through other layouts."""
    clusters: list[list[Layout]] = []
    end = 0
    for layout in sorted(layouts, key=lambda layout: layout.span):
        if clusters and layout.span[0] < end:
            clusters[-1].append(layout)
        else:
            clusters.append([layout])
        end = max(end, layout.span[1])
    return clusters


def _base_of_written_layouts(cluster: list[Layout]) -> Layout:
    """Return one layout that contains all layouts of a cluster as views.

    Written memory is passed as one tensor, because the order of accesses through two tensors is not defined.
    """
    dtype = cluster[0].dtype
    if any(layout.dtype != dtype for layout in cluster):
        raise NotFusable("an input is written, and its memory is accessed with two dtypes")
    for base in cluster:
        chains = [view_recovery.recover_view(base, layout) for layout in cluster]
        if all(steps is not None and view_recovery.is_view_only(steps) for steps in chains):
            return base
    first = min(layout.span[0] for layout in cluster) // dtype.itemsize
    end = max(layout.span[1] for layout in cluster) // dtype.itemsize
    return Layout(dtype, (end - first,), (1,), first)


def _bases_of_read_layouts(layouts: list[Layout]) -> list[Layout]:
    """Return some of the layouts, such that every other layout is a view of one of them.

    The result may have several layouts, because memory that is only read may be passed as several tensors.
    """
    bases: list[Layout] = []
    for layout in layouts:
        chains = [view_recovery.recover_view(base, layout) for base in bases]
        if not any(steps is not None and view_recovery.is_view_only(steps) for steps in chains):
            bases.append(layout)
    return bases


def plan_input_layouts(description: Description) -> dict[int, list[Layout]]:
    """Return, for each input and constant buffer, the layouts of the tensors that are passed for it.

    The tensors of a buffer do not overlap in memory that is written.

    Raises:
        NotFusable: memory is written and used with two dtypes, or a constant is written.
    """
    uses: dict[int, Counter[Layout]] = {}
    written: dict[int, set[Layout]] = {}
    for call in description.calls:
        for position, value in enumerate(call.args):
            for ref in tensor_refs(value):
                role = description.buffers[ref.buffer][1]
                if role not in ("input", "constant") or ref.layout.numel == 0:
                    continue
                layout = without_expanded_dims(ref.layout)
                uses.setdefault(ref.buffer, Counter())[layout] += 1
                if position in call.writes:
                    if role == "constant":
                        raise NotFusable(f"{call.op}: writes a constant")
                    written.setdefault(ref.buffer, set()).add(layout)
    planned: dict[int, list[Layout]] = {}
    for buffer, counts in uses.items():
        # Largest layouts first, then the most used, because the others are often views of the first layouts.
        order = sorted(counts, key=lambda layout: (-layout.numel, -counts[layout], layout.span, layout.sizes))
        if not written.get(buffer):
            planned[buffer] = _bases_of_read_layouts(order)
            continue
        bases = []
        for cluster in _group_overlapping(order):
            cluster.sort(key=order.index)
            if written[buffer].isdisjoint(cluster):
                bases += _bases_of_read_layouts(cluster)
            else:
                bases.append(_base_of_written_layouts(cluster))
        planned[buffer] = bases
    return planned
