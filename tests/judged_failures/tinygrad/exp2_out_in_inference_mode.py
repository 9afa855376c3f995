"""On tinygrad, torch.ops.aten.exp2.out returns a tensor that is not its out= argument, but only in inference
mode. The operator has the tag ``out``. PyTorch's page library.html says that operators with this tag return
the tensors to which they write.
"""

import contextlib

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

exp2_out = torch.ops.aten.exp2.out
DTYPES = (torch.int32, torch.float16)
print("tags:", exp2_out.tags, exp2_out._schema)
same = {}
for dtype in DTYPES:
    for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
        with mode():
            x = torch.ones(4, 5, dtype=dtype).to("tiny")
            out_dtype = dtype if dtype.is_floating_point else torch.float32
            out = torch.empty(4, 5, dtype=out_dtype, device="tiny").fill_(1)
            result = exp2_out(x, out=out)
            same[dtype, mode.__name__] = result is out
            out.fill_(7)
            shares_data = bool((result.cpu() == 7).all())
            out.unsqueeze_(0)
            print(dtype, mode.__name__, "| the result is out:", result is out, end=" ")
            print("| shares its data:", shares_data, "| after out.unsqueeze_(0): result", end=" ")
            print(tuple(result.shape), "out", tuple(out.shape))
with torch.inference_mode():
    x, out = torch.ones(2, device="tiny"), torch.empty(2, device="tiny").fill_(1)
    index, host = torch.tensor([0, 1], device="tiny"), torch.empty(2)
    print("in inference mode: torch.exp2(out=) is out:", torch.exp2(x, out=out) is out, end=" ")
    print("| index_select.out is out:", torch.ops.aten.index_select.out(x, 0, index, out=out) is out, end=" ")
    print("| exp2_ is its input:", torch.ops.aten.exp2_(x) is x)
    print("CPU: exp2.out is out:", exp2_out(torch.ones(2), out=host) is host)
contradicts = all(
    same[dtype, "nullcontext"] and same[dtype, "no_grad"] and not same[dtype, "inference_mode"]
    for dtype in DTYPES
)
print("VERDICT:", "true" if contradicts else "parity")
