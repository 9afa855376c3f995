"""On openreg, abs rejects every dtype but float32. So do isclose, isinf, logsumexp, softsign and repr, which
call abs. The example on PyTorch's page generated/torch.abs.html uses integers, and no page limits the dtypes
of abs.
"""

import torch
import torch.nn.functional as F


def abs_kernel_rejects(name, function, *arguments, **options):
    """Make a call. Return whether it fails because the kernel of abs rejects the dtype."""
    try:
        function(*arguments, **options)
    except RuntimeError as error:
        print(name, "| refused:", str(error)[:60])
        return "Abs kernel only supports float" in str(error)
    print(name, "| works")
    return False


def ones(*shape, dtype):
    """Return a tensor of ones on the device."""
    return torch.ones(shape).to(dtype).to("openreg")


bad = [abs_kernel_rejects("the example of torch.abs", torch.abs, torch.tensor([-1, -2, 3]).to("openreg"))]
for dtype in (torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.complex64):
    bad.append(abs_kernel_rejects(f"abs {dtype}", torch.abs, ones(3, dtype=dtype)))
    bad.append(abs_kernel_rejects(f"abs {dtype} without elements", torch.abs, ones(0, dtype=dtype)))
x = ones(2, dtype=torch.int32)
bad.append(abs_kernel_rejects("abs_ int32", x.abs_))
bad.append(abs_kernel_rejects("abs int32 with out=", torch.abs, x, out=torch.empty_like(x)))
for dtype in (torch.bfloat16, torch.complex64, torch.complex128):
    bad.append(
        abs_kernel_rejects(f"isclose {dtype}", torch.isclose, ones(3, dtype=dtype), ones(3, dtype=dtype))
    )
for dtype in (torch.bfloat16, torch.complex32):
    bad.append(abs_kernel_rejects(f"isinf {dtype}", torch.isinf, ones(3, dtype=dtype)))
for dtype in (torch.float64, torch.float16):
    bad.append(abs_kernel_rejects(f"logsumexp {dtype}", torch.logsumexp, ones(2, 2, dtype=dtype), 1))
bad.append(abs_kernel_rejects("softsign int64", F.softsign, ones(0, dtype=torch.int64)))
example = torch.tensor([[0.5, 1]], dtype=torch.float64).to("openreg")
bad.append(abs_kernel_rejects("repr float64 (as in the example of torch.tensor)", repr, example))
for dtype in (torch.bfloat16, torch.complex128):
    bad.append(abs_kernel_rejects(f"repr {dtype}", repr, ones(3, dtype=dtype)))

x = ones(2, 2, dtype=torch.float32)
unexpected = [
    abs_kernel_rejects("abs float32", torch.abs, x),
    abs_kernel_rejects("logsumexp float32", torch.logsumexp, x, 1),
]
x = torch.tensor([-1, 2]).to("openreg")
print("negation, comparison and choice of int64 work:", torch.where(x < 0, -x, x).cpu().tolist())
print("VERDICT:", "true" if all(bad) and not any(unexpected) else "false")
