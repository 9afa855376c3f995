"""A float8 tensor without dimensions cannot be copied to XLA unless its number is 0 or 1. The copy fails with
an internal assertion. The same number with one dimension is copied, so the device contradicts itself. The
operator that uses the copy is not at fault.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def copied(tensor):
    """Return the numbers after a copy to XLA and back, or the error, as text."""
    try:
        return str(tensor.to("xla").cpu().float().reshape(-1).tolist())
    except Exception as error:
        return f"raises {str(error).splitlines()[0][:150]}"


contradictions = []
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    for number in (1.0, 3.0):
        scalar = torch.tensor(number).to(dtype)
        alone, in_list = copied(scalar), copied(scalar.reshape(1))
        print(dtype, number, "| no dimension:", alone, "| one dimension:", in_list)
        contradictions.append("INTERNAL ASSERT" in alone and in_list == str([number]))
reason = "the same number is copied with one dimension and not without dimensions"
print("VERDICT:", "true" if contradictions == [False, True] * 2 else "false", "-", reason)
