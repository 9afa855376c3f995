"""On openreg, the private operator _stack.out returns the shape of a concatenation. The device runs torch's
composite kernel of the operator. This kernel returns the same shape for CPU tensors, and the public
torch.stack with out= is right.
"""

import torch
from torch._C import DispatchKey

operator = torch.ops.aten._stack.out
table = torch._C._dispatch_dump_table("aten::_stack.out")
print([line for line in table.splitlines() if line.startswith("PrivateUse1")])
expected = []
for dtype in (torch.float32, torch.complex64, torch.uint8, torch.float64, torch.bool):
    x = torch.ones(3, 2).to(dtype)
    y = x.to("openreg")
    key = DispatchKey.CompositeExplicitAutograd
    device = tuple(operator([y, y], 0, out=y.new_empty(0)).shape)
    composite = tuple(operator._op_dk(key, [x, x], 0, out=x.new_empty(0)).shape)
    host = tuple(operator([x, x], 0, out=x.new_empty(0)).shape)
    public = tuple(torch.stack([y, y], out=y.new_empty(0)).shape)
    print(dtype, "| openreg:", device, "| the composite kernel on the CPU:", composite, end=" ")
    print("| the CPU's own kernel:", host, "| torch.stack on openreg:", public)
    expected.append(device == composite == (6, 2) and host == public == (2, 3, 2))
print("VERDICT:", "false" if all(expected) else "true")
