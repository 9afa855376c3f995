"""On openreg, reading a conjugate view crashes the process. This includes views that torch creates in a
backward pass or in ifft. The target file torch_openreg.toml declares the crash (conj_neg_views = "crashes").
All other tested calls work.
"""

import signal
import subprocess
import sys

import torch


def complex_ones(*shape):
    """Return a tensor of complex ones on the device that requires a gradient."""
    return torch.ones(shape, dtype=torch.complex64).to("openreg").requires_grad_()


def backward(result, *inputs):
    """Return the gradients of the result with respect to the inputs, on the CPU."""
    return [gradient.cpu() for gradient in torch.autograd.grad(result, inputs, torch.ones_like(result))]


def mm_backward(x, y):
    """Compute the gradients of a matrix product."""
    return backward(torch.mm(x, y), x, y)


def expm1_backward(x):
    """Compute the gradient of expm1."""
    return backward(torch.expm1(x), x)


def make_real_signal():
    """Return a real float64 tensor on the device."""
    return torch.ones(4, dtype=torch.float64).to("openreg")


WORKS = {
    "conj(x).is_conj()": lambda: complex_ones(2).conj().is_conj(),
    "_conj(x).is_conj()": lambda: torch.ops.aten._conj(complex_ones(2)).is_conj(),
    "mm": lambda: torch.mm(complex_ones(2, 3), complex_ones(3, 2)).detach().cpu(),
    "expm1": lambda: torch.expm1(complex_ones(3)).detach().cpu(),
    "backward of real mm": lambda: mm_backward(
        torch.ones(2, 3).to("openreg").requires_grad_(), torch.ones(3, 2).to("openreg").requires_grad_()
    ),
    "fft of real input": lambda: torch.fft.fft(make_real_signal()).cpu(),
    "ifft(x).is_conj(), CPU and openreg": lambda: [
        torch.fft.ifft(x).is_conj() for x in (torch.ones(4), make_real_signal())
    ],
}
CRASHES = {
    "reading conj(x)": lambda: complex_ones(2).conj().cpu(),
    "reading _conj(x)": lambda: torch.ops.aten._conj(complex_ones(2)).cpu(),
    "backward of mm": lambda: mm_backward(complex_ones(2, 3), complex_ones(3, 2)),
    "backward of expm1": lambda: expm1_backward(complex_ones(3)),
    "ifft of real input": lambda: torch.fft.ifft(make_real_signal()).cpu(),
    "hfft of real input": lambda: torch.fft.hfft(make_real_signal()).cpu(),
    "ihfft of real input": lambda: torch.fft.ihfft(make_real_signal()).cpu(),
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
    print("VERDICT:", "false" if all(works) and all(crashes) else "true")


if len(sys.argv) > 1:
    print({**WORKS, **CRASHES}[sys.argv[1]]())
else:
    main()
