"""On XLA, clamp returns its input if the lower bound is a tensor of NaN. With the number NaN as lower bound,
clamp returns NaN, so the device contradicts itself. PyTorch's page generated/torch.clamp.html says that the
result is min(max(x, min), max). The page generated/torch.maximum.html says that a maximum with NaN is NaN.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

nan = float("nan")
host = torch.tensor([-2.8, 5.5, 0.0])
bound = torch.full((3,), nan)
x, b = host.to("xla"), bound.to("xla")
out = torch.empty(3).to("xla")
torch.clamp(x, b, out=out)
results = {
    "clamp(x, min=tensor of NaN)": torch.clamp(x, b),
    "clamp(x, max=tensor of NaN)": torch.clamp(x, None, b),
    "clamp(x, min=tensor of NaN, out=out)": out,
    "x.clone().clamp_(min=tensor of NaN)": x.clone().clamp_(b),
    "maximum(x, NaN)": torch.maximum(x, b),
}
for name, result in results.items():
    print(name, result.cpu().tolist())
number = torch.clamp(x, nan).cpu()
swapped = torch.maximum(b, x).cpu()
print("clamp(x, min=nan)", number.tolist(), "| maximum(NaN, x)", swapped.tolist())
print("CPU: clamp(x, min=tensor of NaN)", torch.clamp(host, bound).tolist())
kept = all(torch.equal(result.cpu(), host) for result in results.values())
itself = bool(number.isnan().all()) and bool(swapped.isnan().all())
reason = "NaN as a number and NaN in a tensor differ, and maximum(x, NaN) contradicts its page"
print("VERDICT:", "true" if kept and itself else "false", "-", reason)
