"""On XLA, elu of float16 works. The error that the suite reported belongs to an earlier elu of integers,
which XLA cannot compile. While the result of the earlier call is alive, each wait for the device fails, but
other results are right.
"""

import torch
import torch.nn.functional as F
import torch_xla

x = torch.tensor([-4.0, -0.5, 0.0, 2.0]).half()


def wait_and_read_error():
    """Wait for the device. Return the lines of the error of the wait, or an empty list."""
    try:
        torch_xla.sync(wait=True)
    except Exception as error:
        return str(error).splitlines()
    return []


def call_elu_and_check(label):
    """Call elu of float16. Return whether the wait for the device works, and whether the result is right."""
    y = F.elu(x.to("xla"))
    error = wait_and_read_error()
    right = torch.allclose(y.cpu().float(), F.elu(x).float(), atol=2e-3)
    print(f"{label}: error of the wait: {error[:1]}; elu of float16 read afterwards is right: {right}")
    return not error, right


first = call_elu_and_check("alone")
alive = F.elu(torch.ones(3, dtype=torch.int64).to("xla"))
print("elu of int64 (not implemented on the CPU):", [line[:120] for line in wait_and_read_error()[:2]])
poisoned = call_elu_and_check("while that result is alive")
total = torch.ones(2).to("xla") + 1
print(
    "a sum of ones while it is alive: error of the wait:",
    wait_and_read_error()[:1],
    "| value",
    total.cpu().tolist(),
)
del alive
last = call_elu_and_check("after it is gone")
refused = not (first[1] and poisoned[1] and last[1]) or not (first[0] and last[0])
print("VERDICT:", "true" if refused else "false")
