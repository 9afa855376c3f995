"""On pytorch_ocl, min with a dimension and max_pool1d raise an INTERNAL ASSERT if their input was constructed
with device="ocl". PyTorch's page tensor_attributes.html says that a tensor constructed on a device without an
ordinal is equivalent to a tensor on the current device, which is "ocl:0". The pages generated/torch.min.html
and generated/torch.nn.functional.max_pool1d.html describe the calls.

The backend contradicts itself: the same values give the right results on "ocl:0" or moved with .to("ocl"). On
"ocl", every dtype and layout fails alike. The cause is that empty, empty_strided and zeros return tensors
whose device has no index.
"""

import functools

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float32,
    torch.float64,
)
HOST = torch.tensor([[3, 1, 2], [5, 0, 4]])


def copy_to_device(device, host):
    """Copy a CPU tensor into a tensor constructed with ``device=device``, and return the copy."""
    constructed = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
    return constructed.copy_(host)


def outcome_of_call(call, expected):
    """Return the text "right" or "wrong", or the error of the call."""
    try:
        actual = call()
    except RuntimeError as problem:
        return "INTERNAL ASSERT" if "INTERNAL ASSERT" in str(problem) else str(problem)[:80]
    return "right" if all(torch.equal(a.cpu(), b) for a, b in zip(actual, expected, strict=True)) else "wrong"


pool = functools.partial(
    torch.nn.functional.max_pool1d, kernel_size=3, stride=2, ceil_mode=True, return_indices=True
)
results = {}
for construction, make in {
    "constructed on ocl": lambda host: copy_to_device("ocl", host),
    "moved by .to('ocl')": lambda host: host.to("ocl"),
    "constructed on ocl:0": lambda host: copy_to_device("ocl:0", host),
}.items():
    outcomes = set()
    for dtype in DTYPES:
        host = HOST.to(dtype)
        outcomes.add(outcome_of_call(lambda m=make, h=host: torch.min(m(h), 1), torch.min(host, 1)))
        outcomes.add(outcome_of_call(lambda m=make, h=host: m(h).min(1, True), host.min(1, True)))
        strided = host.t().contiguous().t()
        outcomes.add(outcome_of_call(lambda m=make, h=strided: torch.min(m(h), 1), torch.min(strided, 1)))
    for dtype in (torch.float32, torch.float64):
        host = torch.tensor([[[1.0, 4.0, 2.0], [7.0, 5.0, 6.0]]], dtype=dtype)
        outcomes.add(outcome_of_call(lambda m=make, h=host: pool(m(h)), pool(host)))
    results[construction] = outcomes
    print(f"{construction:22}", outcomes)
matrix = torch.zeros(2, 3, device="ocl")
print(
    "torch.zeros(2, 3, device='ocl').min(1):",
    outcome_of_call(lambda: matrix.min(1), torch.zeros(2, 3).min(1)),
)
true = results["constructed on ocl"] == {"INTERNAL ASSERT"} and all(
    results[construction] == {"right"} for construction in list(results)[1:]
)
print(
    "VERDICT:",
    "true tensors constructed on 'ocl' stop these operators with an internal assert, in every dtype "
    "and layout; with 'ocl:0' and with .to('ocl') they work"
    if true
    else "false not as described",
)
