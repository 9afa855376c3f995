"""Measure how far the tolerances of operators are from the errors of good and bad kernels.

``python -m tools.tolerance_margins [--page docs/tolerances.md] [-k WORD]``

For each operator and dtype, three numbers, on samples of the suite:

* *narrowest*: the smallest tolerance of a sample in units of the result. The unit is the result times the
  distance from 1.0 to the next number of the dtype. A kernel whose relative error is larger everywhere
  fails.
* *CPU* and *decomposed*: the largest error of the CPU's kernel, and of torch's decomposition into other
  operators in the same dtype, as a part of the tolerance. A part above 1 would be a false alarm.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.tolerances import Tolerance
from conformance.oracle.reference import Reference, cached_reference
from conformance.oracle.sensitivity import call_operator
from conformance.samples.copies import to_host
from conformance.samples.operators import samples_of
from conformance.subjects import catalogue
from conformance.subjects.torch_databases import Subject

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SAMPLES = 6
_BEGIN, _END = "<!-- margins -->", "<!-- end of margins -->"


@dataclasses.dataclass(frozen=True)
class ToleranceMargin:
    """The margins of one operator in one dtype. ``decomposed`` is None if torch has no decomposition."""

    operator: str
    dtype: torch.dtype
    rule: str
    narrowest: float
    cpu: float
    decomposed: float | None


class ReplaceByDecompositions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Replaces each call of an overload by torch's decomposition, if there is one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.used = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replacement = decomposition_table.get(func)
        if replacement is not None:
            with self:
                result = replacement(*args, **(kwargs or {}))
            if result is not NotImplemented:
                self.used = True
                return result
        return func(*args, **(kwargs or {}))


def tolerance_margin_of(subject: Subject, dtype: torch.dtype) -> ToleranceMargin | None:
    """Return the margins of an operator in a dtype; None if no sample has a rounded floating-point result."""
    samples = samples_of(subject, dtype)
    narrowest, cpu, decomposed = float("inf"), 0.0, None
    name = ""
    for sample in samples.chosen(SAMPLES):
        reference = cached_reference(subject, dtype, sample.index, samples)
        if not reference.ok or reference.tolerance_rule.exact or not reference.has_high_precision:
            continue
        if reference.call.relation is not None:
            continue
        name = reference.tolerance_rule.name
        narrowest = min([narrowest, *_narrowest_tolerances(reference)])
        cpu = max([cpu, *_used_shares_of_tolerance(reference, reference.outputs)])
        mode = ReplaceByDecompositions()

        def call(mode: ReplaceByDecompositions = mode, sample: Any = sample) -> Any:
            with mode:
                return call_operator(subject.info, to_host(sample))

        outcome = attempt(call)
        if mode.used and outcome.ok:
            decomposed = max([decomposed or 0.0, *_used_shares_of_tolerance(reference, outcome.value)])
    if not name or narrowest == float("inf"):
        return None
    return ToleranceMargin(subject.name, dtype, name, narrowest, cpu, decomposed)


def tolerance_of(reference: Reference, index: int) -> Tolerance:
    """Return the tolerance of the result tensor number ``index`` of a reference."""
    return reference.tolerance_rule.tolerance(
        trees.tensors(reference.outputs)[index].dtype, reference.coarsest_dtype, elements=reference.elements
    )


def values_and_allowed_errors(reference: Reference) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield index, high-precision values and allowed errors of each floating-point tensor of a reference."""
    outputs = trees.tensors(reference.outputs)
    wides = trees.tensors(reference.high_precision)
    for index, (output, wide, moved) in enumerate(zip(outputs, wides, reference.sensitivity, strict=True)):
        if not output.is_floating_point() or output.layout != torch.strided or not output.numel():
            continue
        tolerance = tolerance_of(reference, index)
        size = wide.double().abs()
        yield index, wide.double(), tolerance.allowed(size if moved is None else size + moved)


def _narrowest_tolerances(reference: Reference) -> Iterator[float]:
    for index, wide, allowed in values_and_allowed_errors(reference):
        dtypes = trees.tensors(reference.outputs)[index].dtype, reference.coarsest_dtype
        unit = max(torch.finfo(dtype).eps for dtype in dtypes)
        least = max(torch.finfo(dtype).tiny for dtype in dtypes) / unit
        counts = (wide.abs() > least) & wide.isfinite() & allowed.isfinite()
        if bool(counts.any()):
            yield float((allowed / (unit * wide.abs()))[counts].min())


def _used_shares_of_tolerance(reference: Reference, result: Any) -> Iterator[float]:
    leaves = trees.tensors(result)
    for index, wide, allowed in values_and_allowed_errors(reference):
        if index >= len(leaves) or leaves[index].shape != wide.shape:
            continue
        unit = torch.finfo(leaves[index].dtype)
        counts = wide.isfinite() & (wide.abs() <= unit.max) & leaves[index].isfinite()
        if bool(counts.any()):
            yield float(((leaves[index].double() - wide).abs() / allowed)[counts].max())


def margins_of_operators(word: str = "") -> Iterator[ToleranceMargin]:
    """Yield the margins of all operators whose name contains ``word``."""
    for subject in cast("list[Subject]", catalogue.subjects("operator")):
        if word not in subject.name:
            continue
        for dtype in DTYPES:
            if dtype in subject.info.dtypes and (margin := tolerance_margin_of(subject, dtype)) is not None:
                yield margin


def margins_table(rows: Iterable[ToleranceMargin]) -> str:
    """Return the margins per class of tolerance rules and dtype as a Markdown table."""
    by_class: dict[tuple[str, str], list[ToleranceMargin]] = collections.defaultdict(list)
    for row in rows:
        by_class[(row.rule, str(row.dtype).removeprefix("torch."))].append(row)
    lines = [
        "| class | dtype | operators | narrowest: least, median | CPU: median, largest | decomposed |",
        "|---|---|---|---|---|---|",
    ]
    for (rule, dtype), group in sorted(by_class.items()):
        widths = [row.narrowest for row in group]
        used = [row.cpu for row in group]
        worst = max(group, key=lambda row: row.cpu)
        decomposed = [row for row in group if row.decomposed is not None]
        text = "–"
        if decomposed:
            most = max(decomposed, key=lambda row: row.decomposed or 0.0)
            text = f"{most.decomposed:.2f} (`{most.operator}`)"
        lines.append(
            f"| {rule} | {dtype} | {len(group)} | {min(widths):.2g}, {statistics.median(widths):.3g} "
            f"| {statistics.median(used):.2f}, {max(used):.2f} (`{worst.operator}`) | {text} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of margins; with ``--page``, also write the table between the page's marker lines."""
    parser = argparse.ArgumentParser(prog="python -m tools.tolerance_margins", description=__doc__)
    parser.add_argument("--page", type=Path, help="page with the marks of the table")
    parser.add_argument("-k", dest="word", default="", help="measure only operators that contain this word")
    parser.add_argument("--list", action="store_true", help="print each operator too")
    options = parser.parse_args(arguments)
    rows = list(margins_of_operators(options.word))
    if options.list:
        for row in rows:
            decomposed = "" if row.decomposed is None else f"{row.decomposed:.3f}"
            print(f"{row.rule} {row.operator} {row.dtype} {row.narrowest:.3g} {row.cpu:.3f} {decomposed}")
    text = margins_table(rows)
    print(text)
    if options.page is not None:
        before, _, rest = options.page.read_text().partition(_BEGIN)
        _, mark, after = rest.partition(_END)
        if not mark:
            parser.error(f"{options.page} does not contain the marker lines {_BEGIN} and {_END}. Add them.")
        options.page.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
