"""On XLA, calls of gt that broadcast and are stored in rows take long, because XLA compiles all calls up to a
wait as one graph. A hundred calls need more than half a minute on a busy machine. All results that arrive are
right. No page limits this time, and no result of the device contradicts another result.
"""

import subprocess
import sys
import time

import torch
import torch_xla


def measure_calls(count, every):
    """Make ``count`` calls, and wait for the device after each ``every`` calls. Print the time, and whether
    all results are right.
    """
    torch.manual_seed(0)
    host, other = torch.randn(5, 10, 5), torch.randn(10, 5)
    x, y = host.to("xla"), other.to("xla")
    rows = torch.empty((count, 5, 10, 5), dtype=torch.bool, device="xla").fill_(1)
    torch_xla.sync(wait=True)
    start = time.time()
    for k in range(count):
        rows[k].copy_(torch.gt(x, y))
        if k % every == every - 1:
            torch_xla.sync(wait=True)
    torch_xla.sync(wait=True)
    print(f"{time.time() - start:.1f} s, right: {bool((rows.cpu() == torch.gt(host, other)).all())}")


if len(sys.argv) > 1:
    measure_calls(int(sys.argv[1]), int(sys.argv[2]))
    sys.exit()
results = {}
for count, every in ((1, 1), (10, 10), (20, 20), (100, 100)):
    command = [sys.executable, __file__, str(count), str(every)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=35)
        text = done.stdout.strip()
    except subprocess.TimeoutExpired:
        text = "not finished after 35 s"
    print(f"{count} calls, a wait after every {every}: {text}", flush=True)
    results[count, every] = text
right = [text.endswith("True") for text in results.values() if text.startswith(tuple("0123456789"))]
ok = len(right) > 1 and all(right)
reason = "only the time for compiling differs, and no page limits it"
print("VERDICT:", "parity" if ok else "true", "-", reason)
