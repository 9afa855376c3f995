"""Test which programs may run in a fork of a process with torch, and that a fork acts like a new process."""

from __future__ import annotations

import subprocess

import pytest

from helpers.processes import may_fork, run_code


@pytest.mark.parametrize(
    ("code", "options", "environment", "may"),
    [
        ("import torch\nprint(1)", (), {}, True),
        ("\nimport os, torch\n", (), {"PT_HPU_LAZY_MODE": "1"}, True),
        ("import torch", ("-W", "ignore"), {"HABANA_LOGS": "x"}, True),
        ("from torch import nn", (), {}, True),
        ("import habana_frameworks.torch.gpu_migration, torch", (), {"PATH": "/bin"}, True),
        ("print(1)\nimport torch", (), {}, False),  # a statement precedes the import
        ("import torchvision", (), {}, False),
        ("import torch", ("-O",), {}, False),
        ("import torch", (), {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}, False),  # the import reads the variable
        ("import torch", (), {"OMP_NUM_THREADS": "2"}, False),  # loaded libraries read the variable
        ("import torch, sys\nprint('torch' in sys.modules)", (), {}, False),
        ("import torch, time\nprint(time.perf_counter())", (), {}, False),
    ],
)
def test_may_fork_rejects_programs_that_can_notice_the_fork(code, options, environment, may):
    assert may_fork(code, options, environment) is may


@pytest.mark.parametrize("forked", [True, False])
class TestAProgram:
    """Run each test program in a fork and in a new process.

    The first statement of the program determines which of the two `run_code` chooses.
    """

    def run_program(self, forked, code, tmp_path, *arguments, **more):
        first = "import torch\n" if forked else "import sys as _sys\nimport torch\n"
        assert may_fork(first + code, (), {}) is forked
        return run_code(first + code, *arguments, cwd=tmp_path, **more)

    def test_gets_arguments_folder_variables_and_empty_input(self, forked, tmp_path):
        code = (
            "import os, sys\n"
            "print(sys.argv[1:], os.getcwd(), os.environ['HPU_X'], repr(sys.stdin.read()), __name__)\n"
            "print('wrong', file=sys.stderr)\n"
        )
        done = self.run_program(forked, code, tmp_path, "a", "b c", HPU_X="1")
        assert done.stdout == f"['a', 'b c'] {tmp_path} 1 '' __main__\n"
        assert (done.returncode, done.stderr) == (0, "wrong\n")

    def test_exits_with_its_own_code_and_output(self, forked, tmp_path):
        ends = (
            ("raise ValueError('x')", 1),
            ("import atexit; atexit.register(print, 'bye')", 0),
            ("import sys; sys.exit(3)", 3),
            ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11),
        )
        for code, expected in ends if forked else ends[:2]:
            done = self.run_program(forked, code, tmp_path)
            assert done.returncode == expected, (code, done)
            assert (done.stdout == "bye\n") == (expected == 0), done
            assert ("ValueError: x" in done.stderr) == (expected == 1), done

    def test_is_killed_after_the_timeout(self, forked, tmp_path):
        with pytest.raises(subprocess.TimeoutExpired):
            self.run_program(forked, "import time; time.sleep(60)", tmp_path, timeout=1)


def test_a_fork_does_not_change_the_next_fork(tmp_path):
    run_code("import torch; torch.seen = True; torch.manual_seed(1)", cwd=tmp_path)
    assert run_code("import torch; print(hasattr(torch, 'seen'))", cwd=tmp_path).stdout == "False\n"
