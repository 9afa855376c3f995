"""On tinygrad, sinh accepts an out= of int64 and drops the fraction. PyTorch's pages notes/out.html and
tensor_attributes.html forbid an integer out= for a floating-point result.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

x = torch.tensor([1.0, 2.0])


def make_integer_tensor(device):
    """Return an integer tensor on a device."""
    return torch.ones(2, dtype=torch.int64, device=device)


CALLS = {
    "sinh(out=int64)": lambda device: torch.sinh(x.to(device), out=make_integer_tensor(device)),
    "mul(out=int64)": lambda device: torch.mul(x.to(device), x.to(device), out=make_integer_tensor(device)),
    "int64 in place sinh_": lambda device: make_integer_tensor(device).sinh_(),
}
results = {}
for device in ("cpu", "tiny"):
    for name, call in CALLS.items():
        try:
            results[device, name] = call(device).cpu().tolist()
        except RuntimeError as error:
            results[device, name] = f"RuntimeError: {error}"
        print(device, name, "->", results[device, name])
print("exact sinh:", torch.sinh(x).tolist())
print("VERDICT:", "true" if isinstance(results["tiny", "sinh(out=int64)"], list) else "false")
