"""On XLA, elu of bfloat16 is exp(x) - 1 computed in bfloat16, so small numbers become 0. PyTorch's page
generated/torch.nn.ELU.html defines elu by this expression and does not bound the error.
"""

import torch
import torch.nn.functional as F
import torch_xla  # noqa: F401  (registers the device)


def print_values(name, tensor):
    """Print a name and the values of a tensor."""
    print(f"{name:28}", [f"{value:.6f}" for value in tensor.cpu().float().tolist()])


x = torch.tensor([-1e-4, -8e-4, -0.002, -0.01, -0.1, -1]).bfloat16()
y = x.to("xla")
print_values("x", x)
print_values("elu, CPU", F.elu(x))
print_values("elu, XLA", F.elu(y))
print_values("exp(x) - 1 in bfloat16, XLA", torch.exp(y) - 1)
print_values("exp(x) - 1 in bfloat16, CPU", torch.exp(x) - 1)
print_values("expm1(x), XLA", torch.expm1(y))
print_values("elu of float32, XLA", F.elu(y.float()))
same_on_xla = torch.equal(F.elu(y).cpu(), (torch.exp(y) - 1).cpu())
same = same_on_xla and torch.equal((torch.exp(x) - 1), F.elu(y).cpu())
error = (F.elu(y).cpu().double() - torch.expm1(x.double())).abs().max().item()
eps = torch.finfo(torch.bfloat16).eps
print("XLA computes the expression in bfloat16:", same, f"| largest error {error:.5f}, eps {eps}")
print("VERDICT:", "parity" if same and error < eps else "true")
