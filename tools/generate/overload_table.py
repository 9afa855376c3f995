"""``python -m tools.generate.overload_table``: writes which operators call which overloads in which dtypes.

With ``--convert`` it adds dtypes in which the CPU takes calls that no sample makes. With ``--idle`` it adds
in which dtypes a property finds nothing to check, from a run on the CPU.
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
from conformance.samples.handmade_calls.calls import BUILT, samples
from conformance.samples.operators import Sample, dtype_name, evenly, samples_of
from conformance.samples.recorded_calls import Recording, converted, record
from conformance.subjects import overloads
from conformance.subjects.torch_databases import Subject, subjects

#: Operators that are named for one overload: the fewest that show all of its dtypes, and these at least.
_OPERATORS = 2
_SAMPLES = 8

#: Dtypes in which built calls are tried.
_DTYPES = (
    *("bfloat16", "bool", "complex128", "complex64", "float16", "float32", "float64"),
    *("int16", "int32", "int64", "int8", "uint8"),
)

#: The CPU's own ways, which no other device has to know.
_OF_THE_CPU = re.compile("mkldnn|_for_cpu|_cpu$|quantized|fbgemm")
#: Memory that nothing has written, and what changes a tensor's memory rather than its values.
_ABOUT_MEMORY = re.compile(
    r"(new_)?empty(_like|_strided|_permuted|_quantized)?$|resize|set_|_?as_strided|_reshape_alias|unfold_backward"
)
#: Values that documentation leaves free: order among equals, signs and phases of factors.
_FREE = re.compile(
    r"mode$|_?unique\w*$|_?cumm(ax|in)_helper$"
    r"|_?linalg_(svd|eigh|eig|eigvals|qr|lu|lu_factor|lu_factor_ex|ldl_factor_ex)$|geqrf$|_linalg_check_errors$"
)

#: Their tensors are two ends, whose dtype is not that of the result.
_ENDS = re.compile(r"(lin|log)space")


def calls() -> Iterator[tuple[Subject, bool, dict[str, set[str]]]]:
    """Yield for each operator, without and with its backward pass, the dtypes of its calls by overload."""
    for operator in subjects("operator"):
        if relations.promise_of(operator.name) is not None:
            continue
        for backward in (False, True):
            able = (
                torch_testing_internals.backward_dtypes(operator.info)
                if backward
                else torch_testing_internals.forward_dtypes(operator.info)
            )
            if backward and not operator.info.supports_autograd:
                continue
            found: dict[str, set[str]] = {}
            for dtype in able:
                try:
                    samples = samples_of(operator, dtype, requires_grad=backward)
                except Exception:
                    continue
                for index in evenly(samples.available, _SAMPLES):
                    recording = Recording()
                    record(operator, dtype, samples[index], recording, backward=backward)
                    for name, dtypes in recording.dtypes.items():
                        found.setdefault(name, set()).update(dtypes & {dtype_name(dtype)})
            yield operator, backward, found


def _kept(name: str) -> bool:
    bare, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, bare), overload or "default")
    base = base_name(name)
    if _OF_THE_CPU.search(bare) or _ABOUT_MEMORY.match(base) or _FREE.match(base):
        return False
    returns = [str(one.type) for one in op._schema.returns]
    return bool(returns) and all("Tensor" in text for text in returns)


def _rank(name: str, counts: dict[str, int], key: tuple[str, bool]) -> tuple[bool, bool, int, str]:
    """Operators of the overload's own name first, then those that call the fewest others."""
    operator = key[0].replace(".", "_")
    base = base_name(name)
    alike = operator.removeprefix("nn_functional_").removeprefix("special_") == base or operator == base
    return not alike, base not in operator, counts[key[0]], key[0]


def table() -> dict[str, Any]:
    """Return by overload its operators, its dtypes, and whether only backward passes call it."""
    sources: dict[str, dict[tuple[str, bool], set[str]]] = collections.defaultdict(dict)
    counts: dict[str, int] = {}
    for operator, backward, found in calls():
        counts[operator.name] = len(found)
        for name, dtypes in found.items():
            if dtypes:
                sources[name][operator.name, backward] = dtypes
    rows = {}
    for name, by_operator in sorted(sources.items()):
        if not _kept(name):
            continue
        only_backward = all(backward for _, backward in by_operator)
        known = {key: value for key, value in by_operator.items() if key[1] == only_backward}
        ordered = sorted(known, key=functools.partial(_rank, name, counts))
        seen: set[str] = set()
        operators: list[str] = []
        for key in ordered:
            if len(operators) < _OPERATORS or not known[key] <= seen:
                operators.append(key[0])
                seen |= known[key]
        rows[name] = {"operators": operators, "dtypes": sorted(seen), "backward": only_backward}
    for name, built in BUILT.items():
        if name in rows:
            raise ValueError(
                f"operators call {name}; take it out of conformance/samples/handmade_calls/calls.py"
            )
        rows[name] = {"operators": [built.like], "dtypes": sorted(_answered(name)), "backward": False}
        if not built.draws:
            rows[name]["draws"] = False
    return dict(sorted(rows.items()))


def _answered(name: str) -> Iterator[str]:
    """Yield the dtypes in which the CPU takes a built call."""
    bare, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, bare), overload or "default")
    for dtype in sorted(_DTYPES):
        for sample in samples(name, dtype):
            try:
                with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet():
                    sample.call(op)
            except Exception:
                continue
            yield dtype
            break


def convert(rows: dict[str, Any]) -> int:
    """Add to the table the dtypes of an overload's own operator in which the CPU takes its calls, converted
    from another dtype, as no operator's sample makes them; return how many those are.
    """
    own: dict[str, Subject] = {}
    for operator in subjects("operator"):
        own.setdefault(re.sub(r"nn\.functional\.", "", operator.name).replace(".", "_"), operator)
    count = 0
    for subject in subjects("overload"):
        found = own.get(base_name(subject.name))
        if found is None or subject.info.backward or subject.info.random or subject.name in BUILT:
            continue
        row = rows[subject.name]
        if row["dtypes"] == ["bool"] or _ENDS.match(subject.name):
            continue
        able = {dtype_name(dtype) for dtype in torch_testing_internals.forward_dtypes(found.info)}
        missing = sorted(able.intersection(_DTYPES).difference(row["dtypes"]))
        added = [dtype for dtype in missing if any(map(_takes(subject), converted(subject, dtype)))]
        if added:
            row["converted"] = sorted({*row.get("converted", ()), *added})
            row["dtypes"] = sorted({*row["dtypes"], *added})
            row["operators"] = list(dict.fromkeys([*row["operators"], found.name]))
            count += len(added)
    return count


def _takes(subject: Subject) -> Callable[[Sample], bool]:
    def takes(sample: Sample) -> bool:
        try:
            with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet():
                sample.call(subject.info.op)
        except Exception:
            return False
        return True

    return takes


def idle(rows: dict[str, Any], document: Path) -> int:
    """Note in the table what has checked nothing in a run on the CPU; return how many results that are."""
    count = 0
    for leg in json.loads(document.read_text())["legs"]:
        if leg["target"]["name"] != "cpu":
            raise ValueError(
                f"{document} is of target {leg['target']['name']}; only the CPU's own run says what is idle"
            )
        for result in leg["results"]:
            case, _, dtype = result["id"].rpartition("@")
            name, _, overload = case.partition("/")
            if overload in rows and any(note.startswith(CHECKED_NOTHING) for note in result.get("notes", ())):
                known = rows[overload].setdefault("idle", {}).setdefault(name, [])
                known[:] = sorted({*known, dtype})
                count += 1
    return count


def main() -> int:
    """Write the table of the installed torch, or note in it what a run has shown to be idle."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate.overload_table", description=main.__doc__)
    parser.add_argument(
        "--idle",
        type=Path,
        metavar="RESULTS",
        help="results.json of 'conformance run --target cpu --mode eager --level full -k overload-'",
    )
    parser.add_argument("--convert", action="store_true", help="add dtypes in which calls can be converted")
    options = parser.parse_args()
    if options.convert:
        rows = json.loads(overloads._FILE.read_text())
        print(f"{convert(rows)} dtypes have converted calls")
    elif options.idle is not None:
        rows = json.loads(overloads._FILE.read_text())
        print(f"{idle(rows, options.idle)} results check nothing")
    else:
        rows = table()
    overloads._FILE.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items()) + "\n}\n"
    )
    print(f"{len(rows)} overloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
