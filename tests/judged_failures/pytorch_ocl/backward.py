"""On pytorch_ocl, torch.autograd.grad fails for inputs constructed with device="ocl". PyTorch's page
tensor_attributes.html says that "ocl" is the current device, which is "ocl:0". The page
generated/torch.autograd.grad.html describes the call.

The forward pass records the device "ocl" without an index in the graph. The gradient of the output, moved
with .to(out.device), is on "ocl:0". torch treats "ocl" and "ocl:0" as different devices. Autograd then
requests an event, which the backend does not support, or rejects the gradient. With inputs on "ocl:0", the
same backward passes need no event and return correct gradients. Functions, methods and in-place methods fail
alike.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch


def gradients_on_device(device, form, *host, moved=False):
    """Return the gradients of a call form, for inputs constructed on a device or moved to the device."""
    if moved:
        inputs = [t.to(device) for t in host]
    else:
        inputs = [torch.empty(t.shape, dtype=t.dtype, device=device).copy_(t) for t in host]
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    out = form(*inputs)
    cotangent = torch.full(out.shape, 0.5).to(out.device)
    return [g.cpu() for g in torch.autograd.grad(out, leaves, cotangent)]


a, b = torch.tensor(2.5), torch.tensor(1.5)
m, mask = torch.arange(4.0).reshape(2, 2), torch.tensor([[True, False], [False, True]])
e, f = torch.zeros(0, 1, 3), torch.zeros(0, 10, 3)
FORMS = {
    "function div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (a, b)),
    "method div floor": (lambda x, y: x.div(y, rounding_mode="floor"), (a, b)),
    "alias divide floor": (lambda x, y: torch.divide(x, y, rounding_mode="floor"), (a, b)),
    "div floor, no elements": (lambda x, y: x.div(y, rounding_mode="floor"), (e, f)),
    "function min": (lambda x, y: torch.min(x, y), (a, b)),
    "method min": (lambda x, y: x.min(y), (a, b)),
    "alias minimum": (lambda x, y: torch.minimum(x, y), (a, b)),
    "function masked_fill": (lambda x, y: torch.masked_fill(x, y, 10), (m, mask)),
    "method masked_fill": (lambda x, y: x.masked_fill(y, 10), (m, mask)),
    "in-place masked_fill_": (lambda x, y: x.clone().masked_fill_(y, 10), (m, mask)),
}
count = {"ocl": 0, "ocl:0": 0, "moved": 0}
for label, (form, host) in FORMS.items():
    expected = gradients_on_device("cpu", form, *[t.clone() for t in host])
    for construction, device in (("ocl", "ocl"), ("ocl:0", "ocl:0"), ("moved", "ocl")):
        try:
            gradients = gradients_on_device(
                device, form, *[t.clone() for t in host], moved=construction == "moved"
            )
            same = all(torch.equal(g, c) for g, c in zip(gradients, expected, strict=True))
            text = "right" if same else "wrong values"
        except RuntimeError as problem:
            text = str(problem).splitlines()[0][:110]
        count[construction] += text == "right"
        print(f"{label:24} {construction:6} {text}")
print(count, "of", len(FORMS))
true = count["ocl"] == 0 and count["ocl:0"] == count["moved"] == len(FORMS)
print(
    "VERDICT:",
    "true no backward works for inputs constructed on 'ocl'; all are right with ocl:0 and with "
    ".to('ocl'), without any event"
    if true
    else "false not as described",
)
