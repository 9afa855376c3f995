"""With inputs on XLA, an out= on the CPU is accepted and written. PyTorch's page notes/out.html requires that
out= is on the device of the result.
"""

import torch
import torch_xla

gelu = torch._C._nn.gelu
CASES = {
    "bernoulli bfloat16": (torch.bernoulli, (), torch.bfloat16, torch.bfloat16),
    "bernoulli float32": (torch.bernoulli, (), torch.float32, torch.float32),
    "gelu bfloat16": (gelu, (), torch.bfloat16, torch.bfloat16),
    "gelu float32": (gelu, (), torch.float32, torch.float32),
    "gt bfloat16": (torch.gt, (0.3,), torch.bfloat16, torch.bool),
    "asin complex64": (torch.asin, (), torch.complex64, torch.complex64),
}
x = torch.tensor([0.25, 0.5, 0.75])
accepted = []
for name, (op, args, dtype, result) in CASES.items():
    host = x.to(dtype)
    try:
        op(host, *args, out=torch.empty(3, dtype=result, device="meta"))
        other = "accepts"
    except Exception as error:
        other = f"raises {type(error).__name__}"
    out = torch.empty(3, dtype=result)
    try:
        returned = op(host.to("xla"), *args, out=out)
        torch_xla.sync(wait=True)
        print(f"{name}: XLA accepts out= on {out.device}, the result is on {returned.device},", end=" ")
        print(f"it is out=: {returned is out}, values {out.tolist()}; CPU with out= on meta {other}")
        accepted.append(True)
    except Exception as error:
        print(name, "XLA raises", type(error).__name__)
        accepted.append(False)
print("VERDICT:", "true" if all(accepted) else "false")
