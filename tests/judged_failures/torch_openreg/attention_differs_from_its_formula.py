"""On openreg, scaled_dot_product_attention of 4-D inputs returns wrong values, accepts masks of wrong shapes,
and has no backward. PyTorch's page of the function shows equivalent code. This code is right on the device.
"""

import torch
import torch.nn.functional as F


def attention_by_documented_formula(query, key, value, mask=None):
    """Compute attention with the code of PyTorch's page
    generated/torch.nn.functional.scaled_dot_product_attention.html.
    """
    bias = torch.zeros(query.size(-2), key.size(-2), device=query.device)
    if mask is not None:
        bias = mask + bias
    return torch.softmax(query @ key.transpose(-2, -1) / query.size(-1) ** 0.5 + bias, -1) @ value


def are_close_and_finite(x, y):
    """Return whether two results are close and finite."""
    return torch.allclose(x.cpu(), y.cpu(), atol=1e-2)


torch.manual_seed(0)
bad = []
query, key, value = host = [torch.randn(2, 3, size, 8) for size in (5, 7, 7)]
device = [x.to("openreg") for x in host]
result, expected = F.scaled_dot_product_attention(*device), attention_by_documented_formula(*device)
print("attention:", result.flatten()[:3].tolist(), "| by the page's code:", expected.flatten()[:3].tolist())
bad += [
    are_close_and_finite(expected, F.scaled_dot_product_attention(*host)),
    not are_close_and_finite(result, expected),
]
packed = torch.randn(2, 5, 3, 4, 8).to("openreg")
parts = [packed[:, :, i].transpose(1, 2) for i in range(3)]
bad.append(
    not are_close_and_finite(F.scaled_dot_product_attention(*parts), attention_by_documented_formula(*parts))
)
print("attention of packed inputs is wrong:", bad[-1])

mask, narrow = torch.ones(4, 9).to("openreg"), torch.randn(2, 3, 7, 6).to("openreg")
CALLS = {
    "a mask that does not fit": (*device, mask),
    "widths that differ": (device[0], narrow, device[2]),
}
for name, arguments in CALLS.items():
    for function in (F.scaled_dot_product_attention, attention_by_documented_formula):
        try:
            function(*arguments)
            raised = False
        except RuntimeError:
            raised = True
        print(name, "|", function.__name__, "raises:", raised)
        bad.append(raised == (function is attention_by_documented_formula))

for options in ({"dim_feedforward": 16}, {"dim_feedforward": 8, "bias": False}):
    module = torch.nn.TransformerEncoderLayer(d_model=4, nhead=2, dropout=0.0, **options)
    x = torch.randn(3, 2, 4)
    for training in (True, False):
        expected = module.cpu().train(training)(x).detach()
        result = module.to("openreg")(x.to("openreg")).detach().cpu()
        difference = (result - expected).abs().max().item()
        print("TransformerEncoderLayer", options, "| training:", training, "| differs by", difference)
        bad.append(not difference < 1e-3)

for x in device:
    x.requires_grad_()
try:
    torch.autograd.grad(F.scaled_dot_product_attention(*device).sum(), device)
    print("backward works")
    bad.append(False)
except RuntimeError as error:
    print("backward is refused:", str(error)[:80])
    bad.append(True)
print("VERDICT:", "true" if all(bad) else "false")
