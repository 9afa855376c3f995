"""On XLA, asin of a bool tensor returns a bool tensor, so asin(True) is True and not 1.5708. PyTorch's page
generated/torch.asin.html defines the values, and XLA computes them for integer tensors.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

host = torch.tensor([True, False])
results = {}
for name in ("bool", "uint8", "int32", "int64", "float32"):
    x = host.to(getattr(torch, name))
    y = torch.asin(x.to("xla"))
    results[name] = (y.dtype, y.cpu().tolist())
    print(name, "XLA", results[name], "CPU", (torch.asin(x).dtype, torch.asin(x).tolist()))
contradicts_page = results["bool"] == (torch.bool, [True, False])
dtype, values = results["int64"]
contradicts_itself = dtype == torch.float32 and abs(values[0] - 1.5708) < 1e-4
print("VERDICT:", "true" if contradicts_page and contradicts_itself else "false")
