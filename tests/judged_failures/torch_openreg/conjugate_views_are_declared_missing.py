"""Reading a conjugate view ends the process on openreg, also a view that torch makes in a backward or in
ifft. The target file torch_openreg.toml declares this (conj_neg_views = "crashes"); the rest works.
"""

import signal
import subprocess
import sys

import torch


def complex_ones(*shape):
    """Complex ones of the device, with a gradient."""
    return torch.ones(shape, dtype=torch.complex64).to("openreg").requires_grad_()


def backward(result, *inputs):
    """Compute and read the gradients."""
    return [gradient.cpu() for gradient in torch.autograd.grad(result, inputs, torch.ones_like(result))]


def mm_backward(x, y):
    """Compute the gradients of a matrix product."""
    return backward(torch.mm(x, y), x, y)


def expm1_backward(x):
    """Compute the gradient of expm1."""
    return backward(torch.expm1(x), x)


def real_signal():
    """A real signal of the device."""
    return torch.ones(4, dtype=torch.float64).to("openreg")


WORKS = {
    "conj(x).is_conj()": lambda: complex_ones(2).conj().is_conj(),
    "_conj(x).is_conj()": lambda: torch.ops.aten._conj(complex_ones(2)).is_conj(),
    "mm": lambda: torch.mm(complex_ones(2, 3), complex_ones(3, 2)).detach().cpu(),
    "expm1": lambda: torch.expm1(complex_ones(3)).detach().cpu(),
    "backward of real mm": lambda: mm_backward(
        torch.ones(2, 3).to("openreg").requires_grad_(), torch.ones(3, 2).to("openreg").requires_grad_()
    ),
    "fft of real input": lambda: torch.fft.fft(real_signal()).cpu(),
    "ifft(x).is_conj(), CPU and openreg": lambda: [
        torch.fft.ifft(x).is_conj() for x in (torch.ones(4), real_signal())
    ],
}
CRASHES = {
    "reading conj(x)": lambda: complex_ones(2).conj().cpu(),
    "reading _conj(x)": lambda: torch.ops.aten._conj(complex_ones(2)).cpu(),
    "backward of mm": lambda: mm_backward(complex_ones(2, 3), complex_ones(3, 2)),
    "backward of expm1": lambda: expm1_backward(complex_ones(3)),
    "ifft of real input": lambda: torch.fft.ifft(real_signal()).cpu(),
    "hfft of real input": lambda: torch.fft.hfft(real_signal()).cpu(),
    "ihfft of real input": lambda: torch.fft.ihfft(real_signal()).cpu(),
}


def exit_code(name):
    """Make one call in a process of its own. Return its exit code."""
    command = [sys.executable, "-W", "ignore", __file__, name]
    done = subprocess.run(command, capture_output=True, text=True)
    print(name, "| exit code", done.returncode, "|", " ".join(done.stdout.split())[:90])
    return done.returncode


def main():
    """Compare the exit codes of all calls."""
    works = [exit_code(name) == 0 for name in WORKS]
    crashes = [exit_code(name) == -signal.SIGSEGV for name in CRASHES]
    print("VERDICT:", "false" if all(works) and all(crashes) else "true")


if len(sys.argv) > 1:
    print({**WORKS, **CRASHES}[sys.argv[1]]())
else:
    main()
