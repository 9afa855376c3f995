"""On XLA, gather along dimension 0 raises an error if input and index have no elements. PyTorch's page
generated/torch.gather.html says that an empty index always gives an empty output of the index's shape.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def shape(x, dim, index, **options):
    """Return the shape of the result on XLA, or the error, as text."""
    try:
        return str(tuple(torch.gather(x.to("xla"), dim, index.to("xla"), **options).cpu().shape))
    except Exception as error:
        return f"raises {str(error).splitlines()[0][:90]}"


wrong = []
for name in ["uint8", "int8", "int32", "float32", "bfloat16", "complex64"]:
    for size, index_size in (((0, 5), (0, 5)), ((10, 0), (5, 0)), ((0, 1), (0, 1))):
        x = torch.zeros(size, dtype=getattr(torch, name))
        index = torch.zeros(index_size, dtype=torch.int64)
        on_xla = shape(x, 0, index)
        into = shape(x, 0, index, out=torch.empty(index_size, dtype=x.dtype).to("xla"))
        on_cpu = tuple(torch.gather(x, 0, index).shape)
        print(name, size, index_size, "| XLA:", on_xla, "| out=:", into[:12], "| CPU:", on_cpu)
        wrong.append(on_xla.startswith("raises") and into.startswith("raises"))
filled = shape(torch.zeros(3, 5), 0, torch.zeros((0, 5), dtype=torch.int64))
print("an empty index into a full input:", filled)
reason = "the page says that an empty index always gives an empty output"
print("VERDICT:", "true" if all(wrong) and filled == "(0, 5)" else "false", "-", reason)
