"""On XLA, normal(mean, std) raises an error if std has more elements than mean. The CPU broadcasts both.
PyTorch's page generated/torch.normal.html allows different shapes only for equal numbers of elements, and
says that the result has the shape of mean. So no page describes these calls.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def shape(device, mean, std):
    """Draw normal numbers for mean and std of these sizes on a device. Return the shape, or the error, as
    text.
    """
    try:
        return str(tuple(torch.normal(torch.zeros(mean).to(device), torch.ones(std).to(device)).cpu().shape))
    except Exception as error:
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:90]}"


def shape_of_out_or_error(mean, std):
    """Draw on XLA into an out= of the broadcast size. Return the shape of out=, or the error, as text."""
    out = torch.zeros(torch.broadcast_shapes(mean, std)).to("xla")
    try:
        torch.normal(torch.zeros(mean).to("xla"), torch.ones(std).to("xla"), out=out)
        return str(tuple(out.cpu().shape))
    except Exception as error:
        return f"raises {type(error).__name__}"


refused = []
for mean, std in (((1, 2, 3), (5, 2, 3)), ((1,), (2,)), ((5, 2, 3), (1, 2, 3)), ((5, 2, 3), (5, 2, 3))):
    on_xla = shape("xla", mean, std)
    into = shape_of_out_or_error(mean, std)
    print(mean, std, "| XLA:", on_xla, "| XLA, out=:", into, "| CPU:", shape("cpu", mean, std))
    refused.append(on_xla.startswith("raises") and into.startswith("raises"))
words = " ".join((torch.normal.__doc__ or "").split())
stated = "total number of elements in each tensor need to be the same" in words
print("the page demands equal numbers of elements:", stated)
reason = "the page demands equal numbers of elements; out= and the functional form agree"
print("VERDICT:", "parity" if refused == [True, True, False, False] and stated else "true", "-", reason)
