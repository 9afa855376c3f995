"""The sanitizer builds of the core, and the environment variables of the processes that load them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUPPRESSIONS_FOLDER = Path(__file__).parent
_TESTS = "reference_backend/tests"
#: A memory fault must terminate the processes of this test, but a sanitizer handles memory faults itself.
_FAULTS = f"{_TESTS}/memory/test_arena.py::test_host_access_faults"
#: This test limits the address space of a process, but the sanitizer's runtime needs more.
_LIMITS = f"{_TESTS}/runtime/test_queue.py::test_call_raises_and_leaves_no_pending_work"
#: The child process of this test waits forever for a lock of ThreadSanitizer's allocator that a parent thread
#: held at the fork. The runtime of gcc 12 does not acquire these locks before a fork.
_FORKS = f"{_TESTS}/engine/test_process_exit.py::test_fork_while_workers_run"
#: This test measures the memory of a process, but AddressSanitizer retains freed memory for some time.
_GROWTH = f"{_TESTS}/engine/test_process_exit.py::test_reading_results_releases_finished_work"


@dataclass(frozen=True)
class SanitizerBuild:
    """A sanitizer build of the core: preloaded libraries, options of the sanitizers, and omitted tests."""

    libraries: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    suppression_files: dict[str, str]  # variable name -> file of suppressions
    omitted_tests: tuple[str, ...]  # tests that the runtime cannot run


SANITIZER_BUILDS = {
    "thread": SanitizerBuild(
        ("libtsan.so",),
        {
            "TSAN_OPTIONS": (
                # Torch and Python are not instrumented, so their memory accesses are ignored. Their locks are
                # still observed.
                "ignore_noninstrumented_modules=1",
                "history_size=5",  # long enough that a report has the stacks of both accesses
                "second_deadlock_stack=1",
                "die_after_fork=0",  # continue a forked child of a threaded process, without checks
            )
        },
        {"TSAN_OPTIONS": "thread_suppressions.txt"},
        (_FAULTS, _LIMITS, _FORKS),
    ),
    "address": SanitizerBuild(
        ("libasan.so", "libubsan.so"),
        {
            "ASAN_OPTIONS": (
                "detect_leaks=0",  # Python does not free all its memory at exit
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


def process_variables(build: SanitizerBuild, core: Path, reports: Path) -> dict[str, str]:
    """Return the environment variables of the test processes."""
    environment_variables = {
        "PYTHONPATH": os.pathsep.join([str(core), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # this environment has no entry point that loads the device
        "LD_PRELOAD": " ".join(compiler_library_path(name) for name in build.libraries),
    }
    for variable, options in build.options.items():
        # Reports are written to files, so that a test still gets the exit code that it expects.
        option_list = [*options, f"log_path={reports / 'report'}"]
        if variable in build.suppression_files:
            option_list.append(f"suppressions={SUPPRESSIONS_FOLDER / build.suppression_files[variable]}")
        environment_variables[variable] = ":".join(option_list)
    return environment_variables


def compiler_library_path(name: str) -> str:
    """Return the path of a library of the compiler. Raise FileNotFoundError if the library is missing."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        raise FileNotFoundError(f"{compiler} does not have {name}. Install gcc's sanitizer libraries.")
    return path


def address_layout_command() -> tuple[str, ...]:
    """Return the command prefix that starts a program with the sanitizer's address ranges free.

    ThreadSanitizer of gcc before 14 does not support address layouts with more than 28 random bits.
    """
    bits = Path("/proc/sys/vm/mmap_rnd_bits")
    if bits.exists() and int(bits.read_text()) > 28:
        return ("setarch", "--addr-no-randomize")
    return ()
