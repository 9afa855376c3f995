"""On XLA, pixel_shuffle with factor 3 returns the shape of an earlier call with factor 1 on the same input
size, and factor 1 after factor 3 returns the shape for factor 3. PyTorch's page
generated/torch.nn.PixelShuffle.html defines the shape. The device also contradicts itself, because the shape
depends on the order of the calls.
"""

import subprocess
import sys

import torch
import torch_xla

if len(sys.argv) > 1:
    name, factors = sys.argv[1], [int(factor) for factor in sys.argv[2].split(",")]
    host = torch.arange(36).reshape(1, 9, 2, 2).to(getattr(torch, name))
    for factor in factors:
        result = torch.pixel_shuffle(host.to("xla"), factor)
        torch_xla.sync(wait=True)
        right = torch.pixel_shuffle(host, factor)
        print(f"{factor}:{tuple(result.shape)}:{torch.equal(result.cpu(), right)}", end=" ")
    sys.exit()


def call_in_new_process(name, factors):
    """Call pixel_shuffle with these factors in a new process. Return the factor, the shape and the
    correctness of each call, as text.
    """
    command = [sys.executable, __file__, name, factors]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


wrong = []
for name in ["float32", "bool", "int8", "int16", "bfloat16", "complex64"]:
    after = call_in_new_process(name, "1,3")
    print(name, "| factors 1, 3:", after, flush=True)
    wrong.append("3:(1, 9, 2, 2):False" in after)
alone, reverse = call_in_new_process("float32", "3"), call_in_new_process("float32", "3,1")
print("float32 | factor 3 alone:", alone, "| factors 3, 1:", reverse)
wrong.append(alone == "3:(1, 1, 6, 6):True")
reason = "the shape depends on an earlier call, and contradicts the page"
print("VERDICT:", "true" if all(wrong) else "false", "-", reason)
