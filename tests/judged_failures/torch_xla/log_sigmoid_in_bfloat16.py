"""On XLA, logsigmoid of 5.84 in bfloat16 is -0.0, and on the CPU -0.0029. XLA computes the formula of
PyTorch's page generated/torch.nn.LogSigmoid.html in bfloat16. In this dtype, 1 + exp(-5.84) is 1. No page
bounds the error, and all call forms agree on XLA.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

host = torch.tensor([-9.0, -1.0, 0.0, 1.0, 3.0, 5.84, 9.0], dtype=torch.bfloat16)
x = host.to("xla")
result = torch.nn.functional.logsigmoid(x).cpu()
forward = torch.ops.aten.log_sigmoid_forward(x)[0].cpu()
outs = [torch.empty(7, dtype=torch.bfloat16).to("xla") for _ in range(2)]
torch.ops.aten.log_sigmoid_forward.output(x, output=outs[0], buffer=outs[1])
# the formula with every step rounded to bfloat16
literal = torch.minimum(host, torch.zeros_like(host)) - torch.log(1 + torch.exp(-host.abs()))
exact = torch.nn.functional.logsigmoid(host.double())
print("XLA:", result.tolist())
print("the formula, step by step in bfloat16:", literal.tolist())
print("exact:", exact.tolist())
same = torch.equal(result, forward) and torch.equal(result, outs[0].cpu())
near = torch.allclose(result.float(), literal.float(), rtol=0.02, atol=1e-4)
error = (result.double() - exact).abs().max().item()
print(f"all forms agree: {same}; near the formula in bfloat16: {near}; largest error: {error:.1e}")
reason = "it is the page's formula in bfloat16, and no page bounds its error"
print("VERDICT:", "parity" if same and near else "true", "-", reason)
