"""On openreg, batch and instance norm in training mode do not update their running statistics. PyTorch's
pages of these modules, such as generated/torch.nn.BatchNorm1d.html, say that training updates them.
"""

import torch
from torch import nn

module = nn.BatchNorm1d(2, momentum=0.5).to("openreg")
module(torch.tensor([[0.0, 4.0], [2.0, 8.0]]).to("openreg"))
statistics = [module.running_mean.tolist(), module.running_var.tolist()]
print("BatchNorm1d of [[0, 4], [2, 8]] with momentum 0.5:", *statistics, "instead of [0.5, 3.0] [1.5, 4.5]")
bad = [statistics == [[0.0, 0.0], [1.0, 1.0]]]
torch.manual_seed(0)
CASES = (
    (nn.InstanceNorm2d, (3, 1e-3, 0.3, False, True), (4, 3, 5, 5)),
    (nn.BatchNorm2d, (3,), (4, 3, 5, 5)),
    (nn.BatchNorm1d, (3,), (8, 3)),
)
for kind, arguments, shape in CASES:
    for loads in (False, True):
        host, device = kind(*arguments), kind(*arguments).to("openreg")
        state = {key: value + 1 if loads else value.clone() for key, value in host.state_dict().items()}
        host.load_state_dict(state)
        device.load_state_dict(state)
        x = torch.randn(shape) * 2 + 5
        host(x)
        device(x.to("openreg"))
        before, mean, variance = state["running_mean"], device.running_mean.cpu(), device.running_var.cpu()
        print(kind.__name__, "| before:", before.tolist(), "| CPU:", host.running_mean.tolist(), end=" ")
        print("| openreg:", mean.tolist())
        unchanged = torch.equal(mean, before) and torch.equal(variance, state["running_var"])
        bad.append(unchanged and not torch.allclose(host.running_mean, before))
        difference = (host.eval()(x) - device.eval()(x.to("openreg")).cpu()).abs().max().item()
        print("  results in evaluation mode differ by", difference)
        bad.append(difference > 0.1)
print("VERDICT:", "true" if all(bad) else "false")
