"""On XLA, threshold of float64 rounds its argument ``value`` to float32. PyTorch's page
generated/torch.nn.Threshold.html says that the result is ``value`` if x is not above the threshold. Other
numbers keep their float64 digits on XLA.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

value = -4.012341672847761
host = torch.tensor([-1.0, -2.0, 3.000000000000001], dtype=torch.float64)
result = torch.nn.functional.threshold(host.to("xla"), 0.0, value).cpu()
rounded = torch.tensor(value, dtype=torch.float32).double().item()
filled = torch.full((1,), value, dtype=torch.float64, device="xla").cpu().item()
clamped = torch.clamp(host.to("xla"), max=value).cpu()[0].item()
print("value:", value, "| XLA:", result.tolist(), "| value rounded to float32:", rounded)
print("full of the same value:", filled, "| clamp to it:", clamped)
ok = result.dtype == torch.float64 and result[0].item() == result[1].item() == rounded != value
ok = ok and result[2] == host[2] and filled == value
print("VERDICT:", "true" if ok else "false", "- the page says that the result is value")
