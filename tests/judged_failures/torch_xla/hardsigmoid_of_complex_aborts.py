"""On XLA, hardsigmoid of complex64 aborts the process. XLA reports other comparisons that it cannot compile
as Python errors, so the device contradicts itself. The script makes each call in a process of its own.
"""

import signal
import subprocess
import sys

import torch
import torch.nn.functional as F
import torch_xla

COMPLEX = torch.tensor([1 + 2j, -4j, 5 + 0j] * 7)
CALLS = {
    "hardsigmoid complex64": (F.hardsigmoid, COMPLEX),
    "hardsigmoid bool": (F.hardsigmoid, torch.ones(3, dtype=torch.bool)),
    "lt complex64": (lambda t: torch.lt(t, t), COMPLEX),
    "hardtanh complex64": (F.hardtanh, COMPLEX),
}


def print_outcomes_of_call(name):
    """Run the named call on the CPU and on XLA, and print both outcomes."""
    function, x = CALLS[name]
    try:
        function(x)
        print("CPU accepts it")
    except Exception as error:
        print("CPU raises", type(error).__name__)
    try:
        result = function(x.to("xla"))  # sync computes only results that are alive
        torch_xla.sync(wait=True)
        print("XLA accepts it, result on", result.device)
    except Exception as error:
        print("XLA raises", type(error).__name__, str(error)[:60].replace("\n", " "))


def main():
    """Run each call in a process of its own and print the verdict, which depends on the exit codes."""
    codes = {}
    for name in CALLS:
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
        codes[name] = done.returncode
        fatal = [line for line in done.stderr.splitlines() if " F " in line]
        print(name, "| exit code", done.returncode, "|", done.stdout.strip().replace("\n", "; "), *fatal)
    crash = codes.pop("hardsigmoid complex64")
    print("VERDICT:", "true" if crash == -signal.SIGABRT and not any(codes.values()) else "false")


if len(sys.argv) > 1:
    print_outcomes_of_call(sys.argv[1])
else:
    main()
