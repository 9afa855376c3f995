"""On openreg, dot, vdot, cat, stack and where accept a CPU tensor together with a device tensor. PyTorch's
page tensor_attributes.html says that tensors are never moved automatically, except scalar tensors.
"""

import torch

bad = []
for dtype in (torch.float32, torch.bfloat16):
    host = torch.ones(3, 3, dtype=dtype)
    device = host.to("openreg")
    calls = {
        "dot": (torch.dot, device[0], host[0]),
        "dot, CPU first": (torch.dot, host[0], device[0]),
        "vdot, CPU first": (torch.vdot, host[0], device[0]),
        "cat": (torch.cat, (device, host)),
        "stack": (torch.stack, (device, host)),
        "where": (torch.where, device > 0, device, host),
        "add": (torch.add, device, host),
    }
    for name, (function, *arguments) in calls.items():
        try:
            print(dtype, name, "| accepted, the result is on", function(*arguments).device)
            bad.append(name != "add")
        except RuntimeError as error:
            print(dtype, name, "| refused:", str(error)[:60])
            bad.append(name == "add")
print("VERDICT:", "true" if all(bad) else "false")
