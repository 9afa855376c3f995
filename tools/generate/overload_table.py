"""``python -m tools.generate.overload_table``: write which operators call which overloads in which dtypes.

``--convert`` adds dtypes that the CPU accepts and no sample uses. ``--idle`` adds the dtypes in which a
property has nothing to check, from a run on the CPU.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.recorder import CHECKED_NOTHING
from conformance.oracle import relations
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.handmade_calls.calls import HANDMADE_CALLS, handmade_samples
from conformance.samples.operators import Sample, dtype_name, evenly_spaced_indices, samples_of
from conformance.samples.recorded_calls import CallRecording, converted_calls, record_calls
from conformance.subjects import overloads
from conformance.subjects.torch_databases import Subject, subjects

#: The number of operators that the table lists for an overload. Further operators are listed if they add
#: dtypes.
_MIN_OPERATORS = 2
#: The number of samples of an operator that are recorded.
_MAX_SAMPLES = 8

#: Dtypes in which handmade calls are tried.
_DTYPES = (
    *("bfloat16", "bool", "complex128", "complex64", "float16", "float32", "float64"),
    *("int16", "int32", "int64", "int8", "uint8"),
)

#: Overloads that exist for the CPU only.
_CPU_INTERNAL = re.compile("mkldnn|_for_cpu|_cpu$|quantized|fbgemm")
#: Overloads that return uninitialised memory, or that change which memory a tensor uses and not its values.
_ABOUT_MEMORY = re.compile(
    r"(new_)?empty(_like|_strided|_permuted|_quantized)?$|resize|set_|_?as_strided|_reshape_alias|unfold_backward"
)
#: Overloads whose results are partly unspecified: the order of equal keys, or the signs and phases of
#: factors.
_UNSPECIFIED = re.compile(
    r"mode$|_?unique\w*$|_?cumm(ax|in)_helper$"
    r"|_?linalg_(svd|eigh|eig|eigvals|qr|lu|lu_factor|lu_factor_ex|ldl_factor_ex)$|geqrf$|_linalg_check_errors$"
)

#: Overloads whose tensor arguments are the ends of a range. The dtype of these arguments can differ from the
#: dtype of the result.
_RANGE_OPERATORS = re.compile(r"(lin|log)space")


def recorded_dtypes() -> Iterator[tuple[Subject, bool, dict[str, set[str]]]]:
    """Yield the dtypes of the calls of each operator by overload, without and with its backward pass."""
    for operator in subjects("operator"):
        if operator.name in relations.RELATIONS:
            continue
        for backward in (False, True):
            supported_dtypes = (
                torch_testing_internals.backward_dtypes(operator.info)
                if backward
                else torch_testing_internals.forward_dtypes(operator.info)
            )
            if backward and not operator.info.supports_autograd:
                continue
            dtypes_by_overload: dict[str, set[str]] = {}
            for dtype in supported_dtypes:
                try:
                    samples = samples_of(operator, dtype, requires_grad=backward)
                except Exception:
                    continue
                for index in evenly_spaced_indices(samples.available, _MAX_SAMPLES):
                    recording = CallRecording()
                    record_calls(operator, dtype, samples[index], recording, backward=backward)
                    for name, dtypes in recording.dtypes.items():
                        dtypes_by_overload.setdefault(name, set()).update(dtypes & {dtype_name(dtype)})
            yield operator, backward, dtypes_by_overload


def _is_checkable(name: str) -> bool:
    bare, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, bare), overload or "default")
    base = base_name(name)
    if _CPU_INTERNAL.search(bare) or _ABOUT_MEMORY.match(base) or _UNSPECIFIED.match(base):
        return False
    returns = [str(result.type) for result in op._schema.returns]
    return bool(returns) and all("Tensor" in text for text in returns)


def _caller_rank(name: str, counts: dict[str, int], key: tuple[str, bool]) -> tuple[bool, bool, int, str]:
    """Return a sort key: operators with the overload's name first, then operators that call the fewest
    overloads.
    """
    operator = key[0].replace(".", "_")
    base = base_name(name)
    has_same_name = (
        operator.removeprefix("nn_functional_").removeprefix("special_") == base or operator == base
    )
    return not has_same_name, base not in operator, counts[key[0]], key[0]


def make_table() -> dict[str, Any]:
    """Return the operators and dtypes of each overload, and whether only backward passes call it."""
    sources: dict[str, dict[tuple[str, bool], set[str]]] = collections.defaultdict(dict)
    counts: dict[str, int] = {}
    for operator, backward, dtypes_by_overload in recorded_dtypes():
        counts[operator.name] = len(dtypes_by_overload)
        for name, dtypes in dtypes_by_overload.items():
            if dtypes:
                sources[name][operator.name, backward] = dtypes
    rows = {}
    for name, by_operator in sorted(sources.items()):
        if not _is_checkable(name):
            continue
        only_backward = all(backward for _, backward in by_operator)
        dtypes_by_caller = {key: value for key, value in by_operator.items() if key[1] == only_backward}
        ordered = sorted(dtypes_by_caller, key=functools.partial(_caller_rank, name, counts))
        covered_dtypes: set[str] = set()
        operators: list[str] = []
        for key in ordered:
            if len(operators) < _MIN_OPERATORS or not dtypes_by_caller[key] <= covered_dtypes:
                operators.append(key[0])
                covered_dtypes |= dtypes_by_caller[key]
        rows[name] = {"operators": operators, "dtypes": sorted(covered_dtypes), "backward": only_backward}
    for name, handmade in HANDMADE_CALLS.items():
        if name in rows:
            raise ValueError(
                f"operators call {name}. Remove it from conformance/samples/handmade_calls/calls.py."
            )
        rows[name] = {
            "operators": [handmade.operator],
            "dtypes": sorted(_accepted_dtypes(name)),
            "backward": False,
        }
        if not handmade.draws:
            rows[name]["draws"] = False
    return dict(sorted(rows.items()))


def _accepted_dtypes(name: str) -> Iterator[str]:
    """Yield the dtypes in which the CPU accepts a handmade call."""
    bare, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, bare), overload or "default")
    for dtype in sorted(_DTYPES):
        for sample in handmade_samples(name, dtype):
            try:
                with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings():
                    sample.call(op)
            except Exception:
                continue
            yield dtype
            break


def add_converted_dtypes(rows: dict[str, Any]) -> int:
    """Add the dtypes in which the CPU accepts converted calls of an overload. Return the number of added
    dtypes.

    The operator of the same name supports such a dtype, but no sample of an operator calls the overload in
    that dtype. The calls are therefore converted from another dtype.
    """
    own: dict[str, Subject] = {}
    for operator in subjects("operator"):
        own.setdefault(re.sub(r"nn\.functional\.", "", operator.name).replace(".", "_"), operator)
    count = 0
    for subject in subjects("overload"):
        own_operator = own.get(base_name(subject.name))
        if (
            own_operator is None
            or subject.info.backward
            or subject.info.random
            or subject.name in HANDMADE_CALLS
        ):
            continue
        row = rows[subject.name]
        if row["dtypes"] == ["bool"] or _RANGE_OPERATORS.match(subject.name):
            continue
        supported_dtypes = {
            dtype_name(dtype) for dtype in torch_testing_internals.forward_dtypes(own_operator.info)
        }
        missing = sorted(supported_dtypes.intersection(_DTYPES).difference(row["dtypes"]))
        added = [
            dtype for dtype in missing if any(map(_cpu_accepts(subject), converted_calls(subject, dtype)))
        ]
        if added:
            row["converted"] = sorted({*row.get("converted", ()), *added})
            row["dtypes"] = sorted({*row["dtypes"], *added})
            row["operators"] = list(dict.fromkeys([*row["operators"], own_operator.name]))
            count += len(added)
    return count


def _cpu_accepts(subject: Subject) -> Callable[[Sample], bool]:
    def accepts_sample(sample: Sample) -> bool:
        try:
            with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings():
                sample.call(subject.info.op)
        except Exception:
            return False
        return True

    return accepts_sample


def add_idle_results(rows: dict[str, Any], document: Path) -> int:
    """Record in ``rows`` the overload results that have nothing to check in a run on the CPU. Return the
    number of these results.
    """
    count = 0
    for leg in json.loads(document.read_text())["legs"]:
        if leg["target"]["name"] != "cpu":
            raise ValueError(
                f"{document} is a run of target {leg['target']['name']}. Pass a run of target cpu."
            )
        for result in leg["results"]:
            case, _, dtype = result["id"].rpartition("@")
            name, _, overload = case.partition("/")
            if overload in rows and any(note.startswith(CHECKED_NOTHING) for note in result.get("notes", ())):
                idle_dtypes = rows[overload].setdefault("idle", {}).setdefault(name, [])
                idle_dtypes[:] = sorted({*idle_dtypes, dtype})
                count += 1
    return count


def main() -> int:
    """Write the table for the installed torch. With --convert or --idle, add dtypes to the existing table."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate.overload_table", description=main.__doc__)
    parser.add_argument(
        "--idle",
        type=Path,
        metavar="RESULTS",
        help="results.json of 'conformance run --target cpu --mode eager --level full -k overload-'",
    )
    parser.add_argument("--convert", action="store_true", help="add dtypes to which calls can be converted")
    options = parser.parse_args()
    if options.convert:
        rows = json.loads(overloads._FILE.read_text())
        print(f"{add_converted_dtypes(rows)} dtypes have converted calls")
    elif options.idle is not None:
        rows = json.loads(overloads._FILE.read_text())
        print(f"{add_idle_results(rows, options.idle)} results have nothing to check")
    else:
        rows = make_table()
    overloads._FILE.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items()) + "\n}\n"
    )
    print(f"{len(rows)} overloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
