"""On tinygrad, sinh of float16 numbers near zero is wrong by some percent, while the device's float32 result
is right. PyTorch's page generated/torch.sinh.html defines the value, and testing.html the tolerance of
assert_close.
"""

import math

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

grid = torch.arange(0x1C80, 0x1CB0, dtype=torch.int16).view(torch.float16)  # numbers around 0.0045
near = -grid[(grid.double() - 0.0044746).abs().argmin()]  # the reported element
value, exact = torch.sinh(near.to("tiny")).cpu().item(), math.sinh(near.item())
error = abs(value - exact)
print(f"sinh({near.item()!r}) = {value!r} on the device, exact {exact!r}, CPU {torch.sinh(near).item()!r}")
print(f"   relative error {error / abs(exact):.2g} (one digit of float16 is 1e-3)")
wide = torch.sinh(near.to("tiny").float()).to(torch.float16).cpu().item()
print("the device itself, computed in float32 and rounded:", wide)
many = (torch.rand(70000, generator=torch.Generator().manual_seed(1)) * 18 - 9).half()
all_exact = torch.sinh(many.double())


def count_beyond_tolerance(result):
    """Return how many elements differ from the exact values by more than the tolerance of
    torch.testing.assert_close.
    """
    return int(((result.double() - all_exact).abs() > 1e-3 * all_exact.abs() + 1e-5).sum())


on_device, on_cpu = (
    count_beyond_tolerance(torch.sinh(many.to("tiny")).cpu()),
    count_beyond_tolerance(torch.sinh(many)),
)
print("70,000 numbers of [-9, 9], beyond the tolerance: device", on_device, "CPU", on_cpu)
print("sinh(1e-4) in float16:", torch.sinh(torch.tensor([1e-4]).half().to("tiny")).cpu().item())
wrong = error > 1e-3 * abs(exact) + 1e-5 and abs(wide - exact) < 1e-3 * abs(exact)
print("VERDICT:", "true" if wrong else "parity")
