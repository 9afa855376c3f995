"""On openreg, resize_ of a nonempty tensor to more elements crashes the process, and so does an out= that is
too small. PyTorch's page generated/torch.Tensor.resize_.html says that the storage grows and that the
elements are preserved.
"""

import signal
import subprocess
import sys

import torch


def ones(*shape, dtype=torch.float32):
    """Return a tensor of ones on the device."""
    return torch.ones(shape, dtype=dtype).to("openreg")


def empty(*shape, dtype=torch.float32):
    """Return an uninitialised tensor on the device, for out=."""
    return torch.empty(shape, dtype=dtype, device="openreg")


def identity_matrices(dtype=torch.float32):
    """Return a batch of two identity matrices on the device."""
    return torch.eye(3, dtype=dtype).repeat(2, 1, 1).to("openreg")


def slogdet(size, dtype=torch.float32):
    """Call slogdet with out= tensors of ``size`` elements. Return the logarithms, on the CPU."""
    out = (empty(size, dtype=dtype), empty(size))
    return torch.linalg.slogdet(identity_matrices(dtype), out=out)[1].cpu()


def call_in_deterministic_mode(function):
    """Run a function in deterministic mode, in which torch fills uninitialised memory."""
    torch.use_deterministic_algorithms(True)
    return function()


def cat_into_input():
    """Concatenate two tensors into the second. Return the shape of the result, or the error: some backends
    reject the call.
    """
    x, y = ones(2, 3), ones(4, 3)
    try:
        return torch.cat([x, y], out=y).shape
    except RuntimeError as error:
        return error


DOUBLE = torch.float64
WORKS = {
    "resize_ from 0 to 5": lambda: ones(0).resize_(5).shape,
    "resize_ from 5 to 2": lambda: ones(5).resize_(2).cpu(),
    "resize_ from (2, 3) to (3, 2)": lambda: ones(2, 3, dtype=DOUBLE).resize_(3, 2).cpu(),
    "det": lambda: torch.det(identity_matrices(torch.complex64)).cpu(),
    "slogdet": lambda: torch.linalg.slogdet(identity_matrices())[1].cpu(),
    "slogdet into 2 elements": lambda: slogdet(2),
    "cat": lambda: torch.cat([ones(2, 3), ones(2, 3)]).shape,
    "kron": lambda: torch.kron(ones(2, 2), ones(2, 2)).shape,
    "empty in deterministic mode": lambda: call_in_deterministic_mode(lambda: empty(2, 3).shape),
}
CRASHES = {
    "resize_ from 2 to 5": lambda: ones(2).resize_(5).shape,
    "resize_ from (2, 3) to (4, 3)": lambda: ones(2, 3, dtype=DOUBLE).resize_(4, 3).shape,
    "resize_ from (3, 2) to (3, 3)": lambda: ones(3, 2, dtype=torch.int64).resize_(3, 3).shape,
    "resize_ from 2 to 5 in deterministic mode": lambda: call_in_deterministic_mode(
        lambda: ones(2).resize_(5).shape
    ),
    "slogdet into 1 element": lambda: slogdet(1),
    "slogdet of complex64 into 1 element": lambda: slogdet(1, torch.complex64),
    "kron into 9 elements": lambda: (
        torch.kron(ones(2, 2, dtype=DOUBLE), ones(2, 2, dtype=DOUBLE), out=empty(3, 3, dtype=DOUBLE)).shape
    ),
    "cat into 9 elements": lambda: torch.cat([ones(2, 3), ones(2, 3)], out=empty(3, 3)).shape,
    "cat into an input": cat_into_input,
}


def exit_code_of_call(name):
    """Run the named call in a process of its own. Return the exit code."""
    command = [sys.executable, "-W", "ignore", __file__, name]
    done = subprocess.run(command, capture_output=True, text=True)
    print(name, "| exit code", done.returncode, "|", " ".join(done.stdout.split())[:90])
    return done.returncode


def main():
    """Run all calls and print the verdict. Calls of WORKS must succeed, and calls of CRASHES must die of
    SIGSEGV.
    """
    works = [exit_code_of_call(name) == 0 for name in WORKS]
    crashes = [exit_code_of_call(name) == -signal.SIGSEGV for name in CRASHES]
    print("VERDICT:", "true" if all(works) and all(crashes) else "false")


if len(sys.argv) > 1:
    print({**WORKS, **CRASHES}[sys.argv[1]]())
else:
    main()
