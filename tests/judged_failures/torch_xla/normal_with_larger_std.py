"""normal(mean, std) raises on XLA if std has more elements than mean; the CPU broadcasts both. The page
generated/torch.normal.html allows different shapes only for equal numbers of elements, and gives the result
the shape of mean. So no page describes these calls.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def shape(device, mean, std):
    """Return the shape of a draw, or the error, as text."""
    try:
        return str(tuple(torch.normal(torch.zeros(mean).to(device), torch.ones(std).to(device)).cpu().shape))
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:90]}"


def out_shape(mean, std):
    """Return the shape of a draw into out= of the broadcast shape on XLA, or the error, as text."""
    out = torch.zeros(torch.broadcast_shapes(mean, std)).to("xla")
    try:
        torch.normal(torch.zeros(mean).to("xla"), torch.ones(std).to("xla"), out=out)
        return str(tuple(out.cpu().shape))
    except Exception as error:
        return f"raises {type(error).__name__}"


refused = []
for mean, std in (((1, 2, 3), (5, 2, 3)), ((1,), (2,)), ((5, 2, 3), (1, 2, 3)), ((5, 2, 3), (5, 2, 3))):
    on_xla = shape("xla", mean, std)
    into = out_shape(mean, std)
    print(mean, std, "| XLA:", on_xla, "| XLA, out=:", into, "| CPU:", shape("cpu", mean, std))
    refused.append(on_xla.startswith("raises") and into.startswith("raises"))
words = " ".join((torch.normal.__doc__ or "").split())
stated = "total number of elements in each tensor need to be the same" in words
print("the page demands equal numbers of elements:", stated)
reason = "the page demands equal numbers of elements; out= and the functional form agree"
print("VERDICT:", "parity" if refused == [True, True, False, False] and stated else "true", "-", reason)
