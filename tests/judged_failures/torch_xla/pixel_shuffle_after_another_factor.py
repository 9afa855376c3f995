"""After a call of pixel_shuffle with upscale_factor 1, a call on the same size with factor 3 returns the size
of the first call on XLA, and after factor 3, factor 1 returns that of factor 3. The page
generated/torch.nn.PixelShuffle.html gives the shape. The device also contradicts itself: the order decides.
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


def run(name, factors):
    """Return what calls with these factors give in a new process."""
    command = [sys.executable, __file__, name, factors]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


wrong = []
for name in ["float32", "bool", "int8", "int16", "bfloat16", "complex64"]:
    after = run(name, "1,3")
    print(name, "| factors 1, 3:", after, flush=True)
    wrong.append("3:(1, 9, 2, 2):False" in after)
alone, reverse = run("float32", "3"), run("float32", "3,1")
print("float32 | factor 3 alone:", alone, "| factors 3, 1:", reverse)
wrong.append(alone == "3:(1, 1, 6, 6):True")
reason = "the shape depends on an earlier call, and contradicts the page"
print("VERDICT:", "true" if all(wrong) else "false", "-", reason)
