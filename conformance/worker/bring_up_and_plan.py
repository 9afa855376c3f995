"""``python -m conformance.worker.bring_up_and_plan``: bring a target up once and plan the results of a run.

This is a separate process, because a backend may crash while it is imported, and because the runner itself
must not load a backend. The process writes its output to a JSON file. If the file is missing, the runner
reports that the target could not be brought up.
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
from conformance.model.records import BackendFacts, BringUpOutput, Facts, ResultNames
from conformance.process_control import exit_with_parent
from conformance.worker import plan_cache

if TYPE_CHECKING:
    from conformance.target.file import TargetFile
    from conformance.target.target import Target
    from conformance.worker.plan_cache import Plans


def environment_facts(module_name: str | None, extra: list[str]) -> Facts:
    """Return the environment of this process: versions and digests of torch and the backend, the Python
    version, the platform and environment variables.
    """
    import torch

    from conformance.builds import describe, installed_torch
    from conformance.model import digests

    build = describe.describe_folder(Path(torch.__file__).parents[1])
    backend: BackendFacts = {"module": module_name, "version": None, "digest": None, "abi": None}
    facts_of_run: Facts = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        # Values that the imported torch reports override values that were read from its files.
        "torch": {
            **build.torch_facts(),
            "version": torch.__version__,
            "revision": str(torch.version.git_version),
            "debug": bool(torch.version.debug),
        },
        "backend": backend,
        "environment": installed_torch.environment_variables_to_record(),
        "extra": list(extra),
    }
    if module_name is not None:
        module = importlib.import_module(module_name)
        version = getattr(module, "__version__", None)
        backend["version"] = None if version is None else str(version)
        file = getattr(module, "__file__", None)
        if file is not None:
            backend["digest"] = digests.package_digest(Path(file).parent)
            backend["abi"] = _cpp_abi_of_package(Path(file).parent)
    return facts_of_run


def _cpp_abi_of_package(package: Path) -> str | None:
    """Return the C++ ABI that a package's libraries were built for; None if the package has no library.

    If ``/proc/self/maps`` exists, only loaded libraries are inspected, because a wheel may contain libraries
    for several torch versions.
    """
    from conformance.builds import abi

    package = package.resolve()  # /proc/self/maps lists real paths
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


def bring_up_and_plan(target_file: str, mode: str, level: str, extra: list[str]) -> BringUpOutput:
    """Bring the target up. Return its environment, the plan of ``level`` in ``mode``, and the plan of level
    full in all modes of the target.

    Raise UsageError if the target cannot be brought up, or if its file names results that do not exist.
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
    facts_of_run = environment_facts(target.module, extra)
    # Do not cache plans for extra modules or a torch that is not an installed wheel: no digest covers them.
    name = (
        None
        if extra or facts_of_run["torch"].get("wheel") is None
        else plan_cache.plan_key(facts_of_run, file.digest, mode, level)
    )
    plans = None if name is None else plan_cache.load_plans(name)
    if plans is None:
        plans = _plan_level_and_full(file, target, level)
        if name is not None:
            plan_cache.store_plans(name, plans)
    return {"facts": facts_of_run, **plans}


def _plan_level_and_full(file: TargetFile, target: Target, level: str) -> Plans:
    """Return the plan of a level and the plan of level full; raise UsageError if the target file names
    results that do not exist.
    """
    from conformance.expectations import target_file_patterns
    from conformance.plan import plan
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    full = plan.build_plan(target, "full", target.modes)
    target_file_patterns.check_target_file_patterns(file, lambda: full)
    chosen = plan.build_plan(target, level)
    # Kinds and names of the properties that the mode has.
    here = [
        (kind, entry.name)
        for kind in catalogue.kinds()
        for entry in properties(kind)
        if target.mode in entry.modes
    ]
    return {"plan": chosen.to_json(), "full": full.to_json(), "here": here}


def full_plan_by_mode(target_file: str, mode: str, extra: list[str]) -> ResultNames:
    """Return the plan of level full for each mode of the target, without using the device.

    Expectations are also checked on machines without the device. The backend is therefore imported only if
    ``torch.device`` rejects the device name without the backend. Raise UsageError if ``torch.device`` still
    rejects the name.
    """
    from conformance.device.bring_up import check_device, import_backend
    from conformance.plan import plan
    from conformance.subjects import catalogue
    from conformance.target import file as files

    catalogue.load_extra(extra)
    file = files.load(target_file)
    target = file.target(mode)
    if not _torch_accepts_device_name(target.device):
        import_backend(target)
        if not _torch_accepts_device_name(target.device):
            check_device(target)
    plans = {each: plan.build_plan(file.target(each), "full", [each]) for each in file.modes}
    return {"names": {each: each_plan.to_json() for each, each_plan in plans.items()}}


def _torch_accepts_device_name(device: str) -> bool:
    import torch

    try:
        torch.device(device)
    except RuntimeError:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Write the output file and return the exit code: 2, with ``error`` in the file, if UsageError was
    raised, otherwise 0.
    """
    parser = argparse.ArgumentParser(prog="python -m conformance.worker.bring_up_and_plan")
    parser.add_argument("answer", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--level", required=True)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--names", action="store_true", help="write only the plan of level full by mode")
    options = parser.parse_args(arguments)
    if exit_with_parent.VARIABLE in os.environ:
        exit_with_parent.exit_with_parent()
    try:
        answer: BringUpOutput | ResultNames
        if options.names:
            answer = full_plan_by_mode(options.target, options.mode, options.extra)
        else:
            answer = bring_up_and_plan(options.target, options.mode, options.level, options.extra)
    except UsageError as error:
        options.answer.write_text(json.dumps({"error": str(error)}))
        return 2
    options.answer.write_text(json.dumps(answer, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
