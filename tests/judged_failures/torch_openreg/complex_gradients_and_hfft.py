"""On openreg, the backward of complex operators crashes the process, and so do hfft, hfft2 and hfftn. In all
of these calls torch reads a conjugate view. PyTorch's pages notes/autograd.html and
generated/torch.fft.hfftn.html describe the calls.
"""

import signal
import subprocess
import sys

import torch


def ones(*shape):
    """Return a tensor of complex ones on the device."""
    return torch.ones(shape, dtype=torch.complex64).to("openreg")


def call_rmul(x):
    """Compute ``x.__rmul__(ones)``."""
    return x.__rmul__(ones(4))


def result_for_complex_ones(function):
    """Compute ``function`` of complex ones on the device, and return the result on the CPU."""
    return function(ones(4)).cpu()


def backward(function):
    """Compute the gradient of ``function`` at complex ones on the device, and return it on the CPU."""
    x = ones(4).requires_grad_()
    function(x).backward(ones(4))
    return x.grad.cpu()


WORKS = {
    "atan": lambda: result_for_complex_ones(torch.atan),
    "sqrt": lambda: result_for_complex_ones(torch.sqrt),
    "__rmul__": lambda: result_for_complex_ones(call_rmul),
    "fftn": lambda: torch.fft.fftn(ones(3, 4, 3)).shape,
    "ifftn": lambda: torch.fft.ifftn(ones(3, 4, 3)).shape,
    "irfftn": lambda: torch.fft.irfftn(ones(3, 4, 3)).shape,
}
CRASHES = {
    "backward of atan": lambda: backward(torch.atan),
    "backward of sqrt": lambda: backward(torch.sqrt),
    "backward of __rmul__": lambda: backward(call_rmul),
    "hfft": lambda: torch.fft.hfft(ones(3, 4, 3)).shape,
    "hfft2": lambda: torch.fft.hfft2(ones(3, 4, 3)).shape,
    "hfftn": lambda: torch.fft.hfftn(ones(3, 4, 3)).shape,
    "x.conj().resolve_conj()": lambda: ones(2).conj().resolve_conj().cpu(),
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
