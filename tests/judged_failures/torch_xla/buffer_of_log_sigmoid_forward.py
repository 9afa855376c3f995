"""On XLA, the second result of log_sigmoid_forward is exp(0) + exp(-abs(x)). On the CPU it is exp(-abs(x)).
No page describes the operator or this buffer, which only log_sigmoid_backward reads. On CUDA, PyTorch's own
decomposition leaves the buffer empty. All call forms agree on XLA, and gradients are right.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

forward = torch.ops.aten.log_sigmoid_forward
backward = torch.ops.aten.log_sigmoid_backward
agree = []
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    host = torch.tensor([-9.0, -1.0, 0.0, 1.0, 9.0], dtype=dtype)
    x = host.to("xla")
    output, buffer = forward(x)
    outs = {"output": torch.empty(5, dtype=dtype).to("xla"), "buffer": torch.empty(5, dtype=dtype).to("xla")}
    forward.output(x, **outs)
    same = torch.equal(outs["buffer"].cpu(), buffer.cpu()) and torch.equal(outs["output"].cpu(), output.cpu())
    gradient = backward(torch.ones(5, dtype=dtype).to("xla"), x, buffer).cpu().double()
    error = (gradient - torch.sigmoid(-host.double())).abs().max().item()
    differs = (buffer.cpu().double() - 1 - forward(host)[1].double()).abs().max().item()
    print(dtype, "| XLA's buffer:", buffer.cpu().tolist(), "| CPU's:", forward(host)[1].tolist())
    print(f"   out= agrees: {same}; error of the gradient: {error:.1e}; buffer - 1 - CPU's: {differs:.1e}")
    agree.append(same and error < 0.01 and differs < 0.01)
reason = "no page describes the buffer, and gradients with it are right"
print("VERDICT:", "parity" if all(agree) else "true", "-", reason)
