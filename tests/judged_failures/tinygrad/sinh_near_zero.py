"""On tinygrad, sinh of small float32 numbers is inexact, because the digits cancel in (exp(x) - exp(-x)) / 2.
PyTorch's page generated/torch.sinh.html defines the value, and notes/numerical_accuracy.html describes the
digits of float32.
"""

import math

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

x = torch.tensor(-0.034623026847839355).repeat(1025)  # the element that the suite reported
exact = math.sinh(x[0].item())
results = {
    "function": torch.sinh(x.to("tiny")),
    "method": x.to("tiny").sinh(),
    "in place": x.to("tiny").sinh_(),
}
for name, result in results.items():
    value = result.cpu()[267].item()
    error = abs(value - exact) / abs(exact)
    print(
        f"{name}: {value!r}, exact {exact!r}, relative error {error:.2g}, CPU {torch.sinh(x)[267].item()!r}"
    )
for v in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
    number = torch.tensor([v])
    exact = math.sinh(number.item())
    single = torch.sinh(number.to("tiny")).cpu().item()
    double = torch.sinh(number.double().to("tiny")).cpu().item()  # the same number in float64, on the device
    single_error, double_error = abs(single - exact) / exact, abs(double - exact) / exact
    print(f"sinh({v:g}): device float32 {single:.9g} (relative error {single_error:.1g}),", end=" ")
    print(f"device float64 {double:.9g}, CPU float32 {torch.sinh(number).item():.9g}")
lost = single_error > 0.5 and double_error < 1e-6  # the errors of the last number, 1e-8
many = torch.rand(70000, generator=torch.Generator().manual_seed(1)) * 18 - 9
exact = torch.sinh(many.double())
error = (torch.sinh(many.to("tiny")).cpu().double() - exact).abs()
beyond = int((error > 1.3e-6 * exact.abs() + 1e-5).sum())
print("70,000 numbers of [-9, 9]: largest relative error", (error / exact.abs()).max().item())
print("   beyond the tolerance of torch.testing.assert_close (rtol 1.3e-6, atol 1e-5):", beyond)
print("VERDICT:", "true" if lost else "parity")
