"""On tinygrad, floor_divide rejects sizes that do not broadcast, as PyTorch's page notes/broadcasting.html
requires. Only the class of the exception differs from the CPU's, and no page names this class for
floor_divide.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch


def error_of_call(call, x, y, device):
    """Return the error of ``call(x, y)`` on a device as text, or ``ACCEPTED``."""
    try:
        call(x.to(device), y.to(device))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ACCEPTED"


CALLS = {
    "floor_divide": torch.floor_divide,
    "floor_divide_": lambda x, y: x.clone().floor_divide_(y),
    "add": torch.add,
    "mul": torch.mul,
    "sub": torch.sub,
}
a, b = torch.ones(5, 10, 14), torch.ones(5, 10, 5)
accepted = False
for name, call in CALLS.items():
    for x, y in ((a, b), (b, a)):
        cpu, tiny = error_of_call(call, x, y, "cpu"), error_of_call(call, x, y, "tiny")
        print(name, "| CPU:", cpu[:40], "| tiny:", tiny[:60])
        accepted |= name.startswith("floor") and tiny == "ACCEPTED"
print("VERDICT:", "true" if accepted else "parity")
