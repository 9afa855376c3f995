"""On XLA, mean of complex64 raises an error, with and without dim and with out=. PyTorch's page
generated/torch.mean.html says that the input has a floating-point or complex dtype.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

host = (torch.arange(6).reshape(2, 3) * (1 + 1j)).to(torch.complex64)


def values_or_error(call):
    """Return the values of a call, or the error, as text."""
    try:
        return str(call(host.to("xla")).cpu().tolist())
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:80]}"


texts = {
    "mean(x)": values_or_error(torch.mean),
    "mean(x, 0)": values_or_error(lambda x: torch.mean(x, 0)),
    "mean(x, (0, 1))": values_or_error(lambda x: torch.mean(x, (0, 1))),
    "mean(x, 0, out=out)": values_or_error(
        lambda x: torch.mean(x, 0, out=torch.empty(3, dtype=torch.complex64).to("xla"))
    ),
}
for name, text in texts.items():
    print(name, text)
print("sum(x, 0)", values_or_error(lambda x: torch.sum(x, 0)), "| CPU: mean(x)", torch.mean(host).item())
refused = all(text.startswith("raises") for text in texts.values())
print("VERDICT:", "true" if refused else "false", "- the page says that complex dtypes are valid")
