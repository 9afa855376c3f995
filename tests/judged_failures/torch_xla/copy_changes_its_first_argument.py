"""On XLA, aten.copy(self, src) and copy.out write to ``self``. The operator's schema marks no argument as
written, and PyTorch's page torch.compiler_ir.html lists the operator as fully functional.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

copy = torch.ops.aten.copy
schema, is_core = str(copy.default._schema), torch.Tag.core in copy.default.tags
print(schema, "| core operator:", is_core)
changed = []
for name in ["int8", "int32", "uint8", "float64", "bfloat16"]:
    host = torch.zeros(3, dtype=getattr(torch, name))
    source = torch.tensor([1, 2, 3], dtype=host.dtype)
    first, second, third = host.to("xla"), host.to("xla"), host.to("xla")
    copy.default(first, source.to("xla"))
    copy.out(second, source.to("xla"), out=third)
    on_cpu = host.clone()
    copy.default(on_cpu, source)
    print(name, "| self after copy:", first.cpu().tolist(), end=" ")
    print("| after copy.out:", second.cpu().tolist(), "| CPU:", on_cpu.tolist())
    changed.append(torch.equal(first.cpu(), source) and torch.equal(second.cpu(), source))
unmarked = "(a!)" not in schema and is_core
reason = "a functional operator writes its argument"
print("VERDICT:", "true" if all(changed) and unmarked else "false", "-", reason)
