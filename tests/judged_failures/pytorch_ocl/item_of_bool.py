"""On pytorch_ocl, item() of a bool tensor returns an int, while tolist() returns a bool. PyTorch's page
generated/torch.Tensor.tolist.html says that tolist() of a scalar returns the same number as item(). The
backend reads the bool as an unsigned integer of 8 bits.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

seen = {}
for device in ("ocl", "ocl:0"):
    scalar = torch.tensor([[True, False], [False, True]]).to(device)[0, 0]
    seen[device] = (type(scalar.tolist()).__name__, type(scalar.item()).__name__)
    print(device, "tolist:", seen[device][0], " item:", seen[device][1])
print("cpu", type(torch.tensor(True).tolist()).__name__, type(torch.tensor(True).item()).__name__)
wrong = all(a != b for a, b in seen.values())
print(
    "VERDICT:",
    "true tolist() is bool and item() is int for the same scalar, with ocl and with ocl:0"
    if wrong
    else "false tolist and item agree",
)
