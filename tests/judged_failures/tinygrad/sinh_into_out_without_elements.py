"""On tinygrad, sinh rejects an out= without elements, which PyTorch's page notes/out.html allows."""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

x = torch.zeros(20, 20, dtype=torch.bool)
refused = False
try:
    out = torch.empty(0, device="tiny")
    torch.sinh(x.to("tiny"), out=out)
    print("resized to", tuple(out.shape))
except Exception as error:
    print("bool, out= of zero elements:", type(error).__name__, error)
    refused = True
print("on the CPU:", tuple(torch.sinh(x, out=torch.empty(0)).shape))
try:
    torch.sinh(torch.ones(2, device="tiny"), out=torch.empty(0, device="tiny"))
    print("float32: resized")
except Exception as error:
    print("float32, out= of zero elements:", type(error).__name__, error)
print("another failure: sinh(False) on the device is", torch.sinh(x[:1, :1].to("tiny")).cpu().item())
print("VERDICT:", "true" if refused else "false")
