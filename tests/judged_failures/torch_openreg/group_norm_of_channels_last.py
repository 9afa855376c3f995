"""On openreg, group norm of a channels_last tensor is rejected. The device runs torch's composite kernel of
group norm. This kernel rejects CPU tensors with the same error, so the device is not at fault.
"""

import torch
import torch.nn.functional as F
from torch._C import DispatchKey

operator = torch.ops.aten.native_group_norm.default
table = torch._C._dispatch_dump_table("aten::native_group_norm")
print([line for line in table.splitlines() if line.startswith("PrivateUse1")])


def error_or_works(function, *arguments):
    """Make a call. Return the first line of its error, or "works"."""
    try:
        function(*arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "works"


x = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
key = DispatchKey.CompositeExplicitAutograd
device = error_or_works(F.group_norm, x.to("openreg"), 2)
composite = error_or_works(operator._op_dk, key, x, None, None, 2, 4, 9, 2, 1e-5)
print("openreg:", device)
print("the composite kernel on the CPU:", composite)
print("the CPU's own kernel:", error_or_works(F.group_norm, x, 2))
print("VERDICT:", "false" if device == composite != "works" else "true")
