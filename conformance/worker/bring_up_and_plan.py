"""``python -m conformance.worker.bring_up_and_plan``: brings a target up once, and decides what there is to run.

It is a process of its own because a backend may crash while it is imported, and because whoever runs the
suite must not load a backend itself. Its answer is a JSON file; without one the target cannot be used.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.errors import UsageError
from conformance.model.records import BackendFacts, Facts, Prepared, ResultNames
from conformance.process_control import exit_with_parent
from conformance.worker import plan_cache

if TYPE_CHECKING:
    from conformance.target.file import TargetFile
    from conformance.target.target import Target
    from conformance.worker.plan_cache import Plans


def facts(module_name: str | None, extra: list[str]) -> Facts:
    """Versions and digests of torch and of the backend in this process, and what else it was started with."""
    import torch

    from conformance.builds import describe, installed_torch
    from conformance.model import digests

    build = describe.describe_folder(Path(torch.__file__).parents[1])
    backend: BackendFacts = {"module": module_name, "version": None, "digest": None, "abi": None}
    facts_of_run: Facts = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        # What torch itself says goes before what its files say.
        "torch": {
            **build.facts(),
            "version": torch.__version__,
            "revision": str(torch.version.git_version),
            "debug": bool(torch.version.debug),
        },
        "backend": backend,
        "environment": installed_torch.recorded_variables(),
        "extra": list(extra),
    }
    if module_name is not None:
        module = importlib.import_module(module_name)
        version = getattr(module, "__version__", None)
        backend["version"] = None if version is None else str(version)
        file = getattr(module, "__file__", None)
        if file is not None:
            backend["digest"] = digests.package_digest(Path(file).parent)
            backend["abi"] = _abi(Path(file).parent)
    return facts_of_run


def _abi(package: Path) -> str | None:
    """The C++ ABI that a package's libraries were built for; None if it has none.

    Only loaded libraries count, if the system shows them: a wheel may hold some for each torch.
    """
    from conformance.builds import abi

    package = package.resolve()  # loaded files are listed by their real path
    try:
        mapped = {
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line
        }
    except OSError:
        mapped = set()
    loaded = [path for path in map(Path, sorted(mapped)) if package in path.parents and path.is_file()]
    try:
        abis = {abi.abi_of_extension(path).value for path in loaded or [package]} - {"unknown"}
        return abis.pop() if len(abis) == 1 else "unknown"
    except UsageError:
        return None


def prepare(target_file: str, mode: str, level: str, extra: list[str]) -> Prepared:
    """The facts, the plan of the level in its mode, and that of the full level in all modes of the target.

    UsageError if the target is unfit, or its file names results that do not exist.
    """
    from conformance.device import known_answer_probe
    from conformance.device.bring_up import bring_up_in_this_process
    from conformance.subjects import catalogue
    from conformance.target import file as files

    catalogue.load_extra(extra)
    file = files.load(target_file)
    target = file.target(mode)
    bring_up_in_this_process(target)
    if not target.is_cpu:
        wrong = known_answer_probe.wrong_answers(target)
        if "copy" in wrong:
            raise UsageError(
                f"device {target.device!r} of target {target.name!r} does not copy to and from the CPU: "
                f"{wrong['copy']}; run 'conformance doctor' to see what is missing"
            )
    found = facts(target.module, extra)
    # Modules of the user's own, and a torch that is no installed wheel, are code that no digest knows.
    name = (
        None
        if extra or found["torch"].get("wheel") is None
        else plan_cache.key(found, file.digest, mode, level)
    )
    plans = None if name is None else plan_cache.load(name)
    if plans is None:
        plans = _plan(file, target, level)
        if name is not None:
            plan_cache.store(name, plans)
    return {"facts": found, **plans}


def _plan(file: TargetFile, target: Target, level: str) -> Plans:
    """Plan a level and the full one. UsageError if the target's file names results that do not exist."""
    from conformance.expectations import target_file_patterns
    from conformance.plan import plan
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    full = plan.build_plan(target, "full", target.modes)
    target_file_patterns.check_patterns(file, lambda: full)
    chosen = plan.build_plan(target, level)
    # Kinds and names of the properties that the mode has.
    here = [
        (kind, entry.name)
        for kind in catalogue.kinds()
        for entry in properties(kind)
        if target.mode in entry.modes
    ]
    return {"plan": chosen.to_json(), "full": full.to_json(), "here": here}


def names(target_file: str, mode: str, extra: list[str]) -> ResultNames:
    """The plan of the full level in each mode of the target, for which its device need not work.

    The backend is imported only if torch does not know the name of its device without it: expectations are
    also checked on machines without the device. UsageError if the name stays unknown.
    """
    from conformance.device.bring_up import check_device, import_backend
    from conformance.plan import plan
    from conformance.subjects import catalogue
    from conformance.target import file as files

    catalogue.load_extra(extra)
    file = files.load(target_file)
    target = file.target(mode)
    if not _nameable(target.device):
        import_backend(target)
        if not _nameable(target.device):
            check_device(target)
    plans = {each: plan.build_plan(file.target(each), "full", [each]) for each in file.modes}
    return {"names": {each: each_plan.to_json() for each, each_plan in plans.items()}}


def _nameable(device: str) -> bool:
    import torch

    try:
        torch.device(device)
    except RuntimeError:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Write the answer to a file; exit code 2 with ``error`` in the answer if the target is unfit."""
    parser = argparse.ArgumentParser(prog="python -m conformance.worker.bring_up_and_plan")
    parser.add_argument("answer", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--level", required=True)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--names", action="store_true", help="only the names of results, by mode")
    options = parser.parse_args(arguments)
    if exit_with_parent.VARIABLE in os.environ:
        exit_with_parent.follow()
    try:
        answer: Prepared | ResultNames
        if options.names:
            answer = names(options.target, options.mode, options.extra)
        else:
            answer = prepare(options.target, options.mode, options.level, options.extra)
    except UsageError as error:
        options.answer.write_text(json.dumps({"error": str(error)}))
        return 2
    options.answer.write_text(json.dumps(answer, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
