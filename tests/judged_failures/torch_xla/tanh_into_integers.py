"""On XLA, tanh of float32 accepts an out= of int64 and drops the fractions. PyTorch's page notes/out.html
forbids an out= of a lower dtype category than the result. The page tensor_attributes.html says that integer
tensors do not accept floating-point results.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

host = torch.tensor([0.5, 2.0, -2.0])
out = torch.full((3,), 7, dtype=torch.int64).to("xla")
try:
    torch.tanh(host.to("xla"), out=out)
    accepted = True
    print("XLA accepts it:", out.cpu().tolist(), "for", torch.tanh(host).tolist())
except Exception as error:
    accepted = False
    print("XLA raises", type(error).__name__, error)
try:
    torch.tanh(host, out=torch.empty(3, dtype=torch.int64))
    print("CPU accepts it")
except Exception as error:
    print("CPU raises", type(error).__name__, error)
print("VERDICT:", "true" if accepted else "false", "- the page forbids an out= of a lower kind")
