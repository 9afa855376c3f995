"""tanh, rsqrt and argmax of tensors on XLA accept an out= on the CPU and write it. PyTorch's page
notes/out.html requires that the devices match. Only the dtypes may differ, for some operators.
"""

import torch
import torch_xla

CASES = {
    "tanh float32": (torch.tanh, (), torch.float32, torch.float32, (3,)),
    "tanh complex64": (torch.tanh, (), torch.complex64, torch.complex64, (3,)),
    "rsqrt complex64": (torch.rsqrt, (), torch.complex64, torch.complex64, (3,)),
    "argmax bfloat16": (torch.argmax, (0,), torch.bfloat16, torch.int64, ()),
}
accepted = []
for name, (op, args, dtype, result, shape) in CASES.items():
    host = torch.tensor([0.25, 0.75, 0.5]).to(dtype)
    try:
        op(host, *args, out=torch.empty(shape, dtype=result, device="meta"))
        other = "accepts it"
    except Exception as error:
        other = f"raises {type(error).__name__}"
    out = torch.empty(shape, dtype=result)
    try:
        op(host.to("xla"), *args, out=out)
        torch_xla.sync(wait=True)
        print(name, "| XLA accepts out= on the CPU:", out.tolist(), "| CPU with out= on meta:", other)
        accepted.append(other.startswith("raises"))
    except Exception as error:
        print(name, "| XLA raises", type(error).__name__)
        accepted.append(False)
reason = "the page demands that the devices match"
print("VERDICT:", "true" if all(accepted) else "false", "-", reason)
