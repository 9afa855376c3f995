"""On tinygrad, prod works in two threads at the same time. The suite reported an error of prod, but copy_
raised it when the check stored the results in a view. The error also occurs without prod.
"""

import sys
import threading

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

generator = torch.Generator().manual_seed(0)
inputs = [torch.rand(5, 5, 5, generator=generator).add(0.5).half().to("tiny") for _ in range(2)]
alone = [torch.prod(x).cpu() for x in inputs]
numbers = [torch.tensor(float(i), dtype=torch.float16, device="tiny") for i in (2, 3)]


def errors_in_threads(body, calls):
    """Run ``body`` in two threads, ``calls`` times in each. For each thread that failed, return the step, the
    number of the call, and the error.
    """
    errors, start = [], threading.Barrier(2)

    def call_repeatedly(i):
        position = ["start", 0]
        try:
            start.wait()
            with torch.no_grad():
                row = torch.empty(50, dtype=torch.float16, device="tiny").fill_(1)
                for k in range(calls):
                    position[1] = k
                    body(i, k, row, position)
        except Exception as error:
            errors.append((*position, repr(error)))

    threads = [threading.Thread(target=call_repeatedly, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def compute_and_compare_prod(i, k, row, position):
    """Call prod, and compare the result with the value that prod computed before the threads started."""
    position[0] = "prod"
    assert torch.prod(inputs[i]).cpu() == alone[i]


def compute_prod_and_copy_to_view(i, k, row, position):
    """Call prod and copy its result to a view."""
    position[0] = "prod"
    result = torch.prod(inputs[i])
    position[0] = "row[k]"
    view = row[k]
    position[0] = "copy_"
    view.copy_(result)


def copy_number_to_view(i, k, row, position):
    """Copy a number to a view."""
    position[0] = "copy_"
    row[k].copy_(numbers[i])


stored = [errors_in_threads(compute_prod_and_copy_to_view, 50) for _ in range(2)]
print("prod, then row[k].copy_(result):", stored)
print("row[k].copy_ without prod:", [errors_in_threads(copy_number_to_view, 50) for _ in range(2)])
interval = sys.getswitchinterval()
sys.setswitchinterval(1e-5)
of_prod = errors_in_threads(compute_and_compare_prod, 1000)
sys.setswitchinterval(interval)
print("prod and cpu() alone, 2 x 1000 calls, threads switched every 10 us:", of_prod)
only_copies_fail = all(step == "copy_" for errors in stored for step, *_ in errors)
print("VERDICT:", "false" if not of_prod and only_copies_fail else "true")
