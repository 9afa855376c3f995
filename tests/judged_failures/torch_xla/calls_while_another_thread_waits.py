"""On XLA, calls of trunc and nonzero in one thread fail while another thread waits for the device. Without
such a wait they work. The threads race, so the failure may need more attempts on another machine.
"""

import threading

import torch
import torch_xla

CALLS = 50


class TwoThreadAttempt:
    """One attempt with two threads, which start at the same time. Thread 1 stores the results of 50 calls in
    rows and reads the rows. With ``both_wait`` it waits for the device before it reads.

    Thread 0 does the same, or only waits if ``first_only_waits`` is true.
    """

    def __init__(self, op, xs, *, both_wait, first_only_waits=False):
        self.op, self.xs = op, xs
        self.both_wait, self.first_only_waits = both_wait, first_only_waits
        self.expected = [op(x.cpu()) for x in xs]
        self.rows = [
            torch.empty((CALLS, *w.shape), dtype=w.dtype, device="xla").fill_(1) for w in self.expected
        ]
        torch_xla.sync(wait=True)
        self.errors, self.right = [], [None, None]
        self.start = threading.Barrier(2)

    def run_thread(self, i):
        """Run thread ``i``. Record its error, or whether its rows are right."""
        only_waits = i == 0 and self.first_only_waits
        try:
            self.start.wait()
            if only_waits:
                for _ in range(6):
                    torch_xla.sync(wait=True)
                return
            for k in range(CALLS):
                self.rows[i][k].copy_(self.op(self.xs[i]))
            if self.both_wait:
                torch_xla.sync(wait=True)
            self.right[i] = all(torch.equal(row, self.expected[i]) for row in self.rows[i].cpu())
        except Exception as error:
            thread = "waiting" if only_waits else "calling"
            self.errors.append(f"{thread} thread: {str(error).splitlines()[0]}")

    def run(self):
        """Start both threads and wait until they have ended."""
        threads = [threading.Thread(target=self.run_thread, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def first_error(op, xs, attempts, **options):
    """Return the first failure of several attempts, or None."""
    for number in range(1, attempts + 1):
        attempt = TwoThreadAttempt(op, xs, **options)
        attempt.run()
        if attempt.errors:
            return f"attempt {number}: {attempt.errors[0]}"
        if False in attempt.right:
            return f"attempt {number}: wrong values"
    return None


def fails_only_while_waiting(op, host, dtypes):
    """Return whether calls of the operator fail in each dtype, and only if a thread waits."""
    verdicts = []
    for dtype in dtypes.split():
        xs = [host().to(getattr(torch, dtype)).to("xla") for _ in range(2)]
        plain = first_error(op, xs, 3, both_wait=False)
        waiting = first_error(op, xs, 15, both_wait=True)
        print(f"{op.__name__} {dtype}: threads that only call and read: {plain}", flush=True)
        print(f"   threads that call, wait and read: {waiting}", flush=True)
        verdicts.append(plain is None and waiting is not None)
    other = first_error(op, xs, 15, both_wait=False, first_only_waits=True)
    print(f"{op.__name__}: a thread of plain calls while another one only waits: {other}", flush=True)
    return all(verdicts) and other is not None


results = [
    fails_only_while_waiting(
        torch.trunc, lambda: torch.randint(-9, 9, (20, 20)), "int8 int32 int64 float16 float64"
    ),
    fails_only_while_waiting(
        torch.nonzero,
        lambda: torch.ones(5, 5).tril(),
        "bool int8 int64 float16 bfloat16 float32 float64",
    ),
]
print("VERDICT:", "true" if all(results) else "false")
