"""The builds of the core under sanitizers, and how their processes are started."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).parent
_TESTS = "reference_backend/tests"
#: Its processes are to die of a fault, which a sanitizer reports and ends in a way of its own.
_FAULTS = f"{_TESTS}/memory/test_arena.py::test_host_access_faults"
#: It limits the address space of a process, of which a sanitizer's runtime needs more.
_LIMITS = f"{_TESTS}/runtime/test_queue.py::test_the_caller_gets_the_error_and_nothing_is_left"
#: Its child waits for ever for a lock of ThreadSanitizer's own allocator, which a thread of the parent had at
#: the fork: gcc 12's does not hold these locks over a fork.
_FORKS = f"{_TESTS}/engine/test_lifetimes.py::test_fork_while_workers_run"
#: It measures the memory of a process, and AddressSanitizer keeps what is freed for a while.
_GROWTH = f"{_TESTS}/engine/test_lifetimes.py::test_reading_results_keeps_no_finished_work"


@dataclass(frozen=True)
class Kind:
    """A build of the core: libraries that are loaded before it, the sanitizers' options, and its tests."""

    libraries: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    rules: dict[str, str]  # by the name of the variable: the file of suppressions
    left_out: tuple[str, ...]  # tests that its runtime cannot run


KINDS = {
    "thread": Kind(
        ("libtsan.so",),
        {
            "TSAN_OPTIONS": (
                # Accesses by torch and Python do not count, only what they lock; theirs are not in our build.
                "ignore_noninstrumented_modules=1",
                "history_size=5",  # so that the older of two stacks is still known
                "second_deadlock_stack=1",
                "die_after_fork=0",  # a fork of a process with threads goes on, without checks
            )
        },
        {"TSAN_OPTIONS": "thread_suppressions.txt"},
        (_FAULTS, _LIMITS, _FORKS),
    ),
    "address": Kind(
        ("libasan.so", "libubsan.so"),
        {
            "ASAN_OPTIONS": (
                "detect_leaks=0",  # Python never frees everything
                "detect_stack_use_after_return=1",
                "strict_init_order=1",
                "alloc_dealloc_mismatch=1",
            ),
            "UBSAN_OPTIONS": ("print_stacktrace=1",),
        },
        {},
        (_FAULTS, _LIMITS, _GROWTH),
    ),
}


def variables(kind: Kind, core: Path, reports: Path) -> dict[str, str]:
    """Variables of the processes of the tests."""
    environment_variables = {
        "PYTHONPATH": os.pathsep.join([str(core), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # the entry point is not installed here
        "LD_PRELOAD": " ".join(library(name) for name in kind.libraries),
    }
    for variable, options in kind.options.items():
        # The files decide: a test that expects an exit code gets it.
        option_list = [*options, f"log_path={reports / 'report'}"]
        if variable in kind.rules:
            option_list.append(f"suppressions={RULES / kind.rules[variable]}")
        environment_variables[variable] = ":".join(option_list)
    return environment_variables


def library(name: str) -> str:
    """Return the path of a library of the compiler."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        raise FileNotFoundError(f"{compiler} has no {name}: install the sanitizers' libraries of gcc")
    return path


def start_command() -> tuple[str, ...]:
    """Words that start a program so that a sanitizer finds its addresses free.

    ThreadSanitizer of gcc before 14 refuses the address layout of systems that use more than 28 random bits.
    """
    bits = Path("/proc/sys/vm/mmap_rnd_bits")
    if bits.exists() and int(bits.read_text()) > 28:
        return ("setarch", "--addr-no-randomize")
    return ()
