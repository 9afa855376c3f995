"""On XLA, rsqrt of bool cannot be compiled, like sqrt, exp and tanh of bool. rsqrt of integers works.
PyTorch's page generated/torch.rsqrt.html names no dtypes, and no other page says that rsqrt accepts bool. The
error is a clean refusal and occurs in every call form.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def values_or_error(op, x, **options):
    """Return the values of a call on XLA, or the error, as text."""
    try:
        return str(op(x.to("xla"), **options).cpu().tolist())
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:70]}"


x = torch.tensor([True, True])
refused = []
for op in (torch.rsqrt, torch.sqrt, torch.exp, torch.tanh, torch.reciprocal):
    text = values_or_error(op, x)
    print(op.__name__, "bool:", text)
    refused.append(text.startswith("raises RuntimeError"))
into = values_or_error(torch.rsqrt, x, out=torch.empty(2).to("xla"))
integers = values_or_error(torch.rsqrt, torch.tensor([1, 4]))
print("rsqrt bool, out= of float32:", into)
print("rsqrt int64:", integers)
named = "bool" in (torch.rsqrt.__doc__ or "")
print("the page of rsqrt names bool:", named)
ok = all(refused) and into.startswith("raises") and not named
print("VERDICT:", "parity" if ok else "true", "- no page says that rsqrt takes bool, and no form of it does")
