"""A float8 tensor without dimensions cannot be copied to XLA unless its value is 0 or 1. The copy fails with
an internal assertion. A float8 tensor with one dimension and the same value can be copied.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def values_after_round_trip(tensor):
    """Return the values of a tensor after a copy to XLA and back, or the error, as text."""
    try:
        return str(tensor.to("xla").cpu().float().tolist())
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:140]}"


failed = []
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16):
    for value in (0.0, 1.0, 3.0, 5.0):
        scalar = torch.tensor(value).to(dtype)
        alone, in_list = values_after_round_trip(scalar), values_after_round_trip(scalar.reshape(1))
        print(dtype, value, "| no dimension:", alone, "| one dimension:", in_list)
        failed.append("INTERNAL ASSERT" in alone and in_list == str([value]))
expected = [False, False, True, True] * 2 + [False] * 4
print("VERDICT:", "true" if failed == expected else "false")
