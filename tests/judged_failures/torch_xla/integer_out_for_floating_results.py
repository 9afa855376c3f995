"""XLA accepts an out= of int64 for a floating-point result and truncates the numbers. PyTorch's page
notes/out.html forbids an out= of a lower dtype category. If the operator does not promote types, the page
forbids any other dtype.
"""

import torch
import torch_xla

gelu = torch._C._nn.gelu
accepted = []
for name, op, dtype in (
    ("asin", torch.asin, torch.float32),
    ("gelu", gelu, torch.float32),
    ("gelu", gelu, torch.bfloat16),
):
    x = torch.tensor([0.25, 0.5, 1.0], dtype=dtype)
    try:
        op(x, out=torch.empty(3, dtype=torch.int64))
        host = "accepts"
    except Exception as error:
        host = f"raises {type(error).__name__}: {error}"
    out = torch.empty(3, dtype=torch.int64, device="xla")
    try:
        returned = op(x.to("xla"), out=out)
        torch_xla.sync(wait=True)
        print(f"{name} {dtype}: XLA accepts, out is {out.dtype} {out.cpu().tolist()};", end=" ")
        print(f"the result is {op(x).tolist()}; CPU {host}")
        accepted.append(returned.dtype == torch.int64)
    except Exception as error:
        print(name, dtype, "XLA raises", error)
        accepted.append(False)
print("VERDICT:", "true" if all(accepted) else "false")
