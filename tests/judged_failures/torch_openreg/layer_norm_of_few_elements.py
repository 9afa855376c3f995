"""On openreg, layer norm of one element is not exactly 0. The device runs torch's composite kernel of layer
norm. This kernel returns the same bits for CPU tensors, so the device is not at fault.
"""

import torch
from torch._C import DispatchKey

operator = torch.ops.aten.native_layer_norm.default
table = torch._C._dispatch_dump_table("aten::native_layer_norm")
print([line for line in table.splitlines() if line.startswith("PrivateUse1")])
torch.manual_seed(0)
inputs = [torch.tensor([value]) for value in (9.1, 123.4, -3.3)]
inputs += [torch.randn(size) * 3 + 10 for size in (1000, 32770)]
same = []
for x in inputs:
    options = ([x.numel()], None, None, 1e-5)
    device = operator(x.to("openreg"), *options)[0].cpu()
    composite = operator._op_dk(DispatchKey.CompositeExplicitAutograd, x, *options)[0]
    host = operator(x, *options)[0]
    print(x.numel(), "elements, the first result | openreg:", device[0].item(), end=" ")
    print(
        "| the composite kernel on the CPU:", composite[0].item(), "| the CPU's own kernel:", host[0].item()
    )
    same.append(torch.equal(device, composite))
print("VERDICT:", "false" if all(same) else "true")
