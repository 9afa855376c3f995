"""Run the operator properties in this process, and print their times and verdicts.

python -m benchmarks.operators --device cpu -p value -k 'nn.functional.*' --failures 3
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib
import sys
import time
import traceback

import torch

from conformance import torch_testing_internals
from conformance.framework.property import Property
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Failure, Kind, Result, ResultId, Verdict
from conformance.properties.registry import properties
from conformance.samples import operators as samples
from conformance.samples import sample_limit
from conformance.subjects.torch_databases import Subject, subjects
from conformance.target.target import Target


def target_of(device: str, module: str | None) -> Target:
    """Return a target that declares all dtypes of op_db and no capabilities."""
    names = {samples.dtype_name(d) for info in torch_testing_internals.op_db() for d in info.dtypes}
    return Target(name=device, module=module, device=device, dtypes=frozenset(names), capabilities={})


def result_of(target: Target, entry: Property, subject: Subject, dtype: str) -> Result:
    """Run one check and return its result. An exception that leaves the check becomes the verdict
    ``error``.
    """
    recorder = Recorder(
        ResultId(CaseId(entry.name, subject.name), dtype), seed=0, about_emptiness=entry.about_emptiness
    )
    try:
        entry.check(target, subject, recorder)
    except Exception:
        result = recorder.result()
        result.verdict = Verdict.ERROR
        result.failures = [Failure(Kind.HARNESS, traceback.format_exc()[-1500:])]
        return result
    return recorder.result()


def main() -> int:
    """Run the properties and print a summary; return 1 if a verdict is unexpected, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--module", default=None, help="module to import for the device")
    parser.add_argument("-p", "--properties", default="*", help="patterns, separated by commas")
    parser.add_argument("-k", "--subjects", default="*", help="patterns, separated by commas")
    parser.add_argument("--failures", type=int, default=1, help="failures shown per result")
    parser.add_argument("--samples", default=None, help="samples per check: a number, or 'all'")
    parser.add_argument("--slowest", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.module:
        importlib.import_module(arguments.module)
    if arguments.samples is not None:
        sample_limit.sample_limit = None if arguments.samples == "all" else int(arguments.samples)
    target = target_of(arguments.device, arguments.module)

    def matches(name: str, patterns: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))

    chosen = [entry for entry in properties("operator") if matches(entry.name, arguments.properties)]
    seconds: collections.Counter[str] = collections.Counter()
    verdicts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    slow: list[tuple[float, str]] = []
    started = time.perf_counter()
    bad = 0
    for subject in subjects("operator"):
        if not matches(subject.name, arguments.subjects):
            continue
        for entry in chosen:
            for dtype in entry.applies(target, subject):
                begun = time.perf_counter()
                result = result_of(target, entry, subject, dtype)
                spent = time.perf_counter() - begun
                seconds[entry.name] += spent
                slow.append((spent, str(result.id)))
                verdicts[entry.name][result.verdict.value] += 1
                if result.verdict.unexpected:
                    bad += 1
                    print(f"{result.verdict.value:8} {result.id} ({result.failure_count})")
                    for failure in result.failures[: arguments.failures]:
                        print(f"    [{failure.sample}] {failure.kind.value}: {failure.message}")
                    for note in result.notes[: arguments.failures]:
                        print(f"    note: {note[:200]}")
                    sys.stdout.flush()
    print(f"\n{'property':20} seconds  verdicts")
    for name, spent in seconds.most_common():
        print(f"{name:20} {spent:7.1f}  {dict(verdicts[name])}")
    print(f"{'all':20} {time.perf_counter() - started:7.1f}  unexpected {bad}")
    for spent, name in sorted(slow, reverse=True)[: arguments.slowest]:
        print(f"  {spent:7.2f} {name}")
    for name in samples.modified_samples():
        print(f"shared sample changed: {name}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
