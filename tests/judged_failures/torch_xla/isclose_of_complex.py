"""On XLA, isclose of complex64 with equal_nan=True raises an error, although equal_nan=False works with the
same finite numbers. PyTorch's page generated/torch.isclose.html says that the option only makes NaNs equal.
The cause is isnan. The page generated/torch.isnan.html says which complex numbers are NaN.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64)


def values_or_error(call):
    """Return the values of a call, or the error, as text."""
    try:
        return str(call(x.to("xla")).cpu().tolist())
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:120]}"


without_option = values_or_error(lambda y: torch.isclose(y, y))
with_nan = values_or_error(lambda y: torch.isclose(y, y, equal_nan=True))
is_nan = values_or_error(torch.isnan)
print("isclose:", without_option)
print("isclose, equal_nan=True:", with_nan, "| CPU:", torch.isclose(x, x, equal_nan=True).tolist())
print("isnan:", is_nan, "| CPU:", torch.isnan(x).tolist())
ok = without_option == "[True, True]" and with_nan.startswith("raises") and is_nan.startswith("raises")
reason = "the option makes a valid call fail, because isnan of complex numbers does"
print("VERDICT:", "true" if ok else "false", "-", reason)
