"""A float8 tensor without dimensions cannot be copied to XLA unless its value is 0 or 1. The copy fails with
an internal assertion. A tensor with one dimension and the same value is copied, so the device contradicts
itself. The operator that the suite checked is not at fault.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def values_after_round_trip(tensor):
    """Copy a tensor to XLA and back. Return its numbers, or the error, as text."""
    try:
        return str(tensor.to("xla").cpu().float().reshape(-1).tolist())
    except Exception as error:
        return f"raises {str(error).splitlines()[0][:150]}"


contradictions = []
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    for number in (1.0, 3.0):
        scalar = torch.tensor(number).to(dtype)
        alone, in_list = values_after_round_trip(scalar), values_after_round_trip(scalar.reshape(1))
        print(dtype, number, "| no dimension:", alone, "| one dimension:", in_list)
        contradictions.append("INTERNAL ASSERT" in alone and in_list == str([number]))
reason = "the same number is copied with one dimension and not without dimensions"
print("VERDICT:", "true" if contradictions == [False, True] * 2 else "false", "-", reason)
