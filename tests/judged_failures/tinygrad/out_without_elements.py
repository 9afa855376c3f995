"""On tinygrad, prod and index_select reject an out= without elements, which PyTorch's page notes/out.html
allows. The page accelerator/operators.html lists resize_ among the operators that a backend needs. tinygrad
has no resize_.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch


def fails_only_with_empty_out(name, call, dtype, shape):
    """Make a call with an out= of the right shape, and with an out= without elements. Return whether the
    second call fails.
    """
    full = torch.empty(shape, dtype=dtype, device="tiny")
    print(name, dtype, "out= of the right shape:", call("tiny", full).cpu().tolist())
    print("   out= of zero elements on the CPU:", call("cpu", torch.empty(0, dtype=dtype)).tolist())
    try:
        result = call("tiny", torch.empty(0, dtype=dtype, device="tiny"))
        print("   out= of zero elements:", result.cpu().tolist())
        return False
    except Exception as error:
        print("   out= of zero elements:", type(error).__name__, str(error)[:75])
        return True


def make_prod_call(dtype):
    """Return a function ``(device, out)`` that writes the product of a tensor of ones to ``out``."""

    def call(device, out):
        return torch.ops.aten.prod.out(torch.ones(5, 5, 5, dtype=dtype).to(device), out=out)

    return call


def make_index_select_call(size, index, dim):
    """Return a function ``(device, out)`` that writes a selection from a tensor of ones to ``out``."""

    def call(device, out):
        ones = torch.ones(size, dtype=torch.bool).to(device)
        return torch.index_select(ones, dim, torch.tensor(index).to(device), out=out)

    return call


refused = [
    fails_only_with_empty_out("prod", make_prod_call(dtype), dtype, ())
    for dtype in (torch.float64, torch.int64)
]
for size, index, dim in (((1,), [0], 0), ((5, 5), [0, 1, 2, 3, 4], -1)):
    refused.append(
        fails_only_with_empty_out("index_select", make_index_select_call(size, index, dim), torch.bool, size)
    )
try:
    torch.empty(0, device="tiny").resize_(3)
except NotImplementedError as error:
    print("resize_ itself:", str(error)[:60])
x = torch.ones(3, device="tiny")
x.unsqueeze_(0)
print("A tensor without a storage can change its sizes: unsqueeze_ gives", tuple(x.shape))
print("VERDICT:", "true" if all(refused) else "false")
