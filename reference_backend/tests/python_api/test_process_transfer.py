"""Test that sending an hpu tensor to another process raises one clear error in the sender or the receiver."""

from __future__ import annotations

import pytest

PROGRAM = """
import concurrent.futures, sys, time
import torch, torch.multiprocessing as mp


class Dataset(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.ones(2, device="hpu") * index


def put(queue, device, received):
    queue.put(torch.ones(2).to(device))
    received.wait(60)  # the receiver opens the shared memory of a CPU tensor through its sender


def ones(device):
    return torch.ones(2, device=device)


def load():
    list(torch.utils.data.DataLoader(Dataset(), batch_size=2, num_workers=1, multiprocessing_context="spawn"))


def receive(device):
    context = mp.get_context("spawn")
    queue = context.Queue()
    received = context.Event()
    process = context.Process(target=put, args=(queue, device, received))
    process.start()
    try:
        return queue.get(timeout=60)
    finally:
        received.set()
        process.join()


def pool():
    with mp.get_context("spawn").Pool(1) as processes:
        processes.map(ones, ["hpu"])


def executor():
    with concurrent.futures.ProcessPoolExecutor(1, mp.get_context("spawn")) as pool:
        try:
            pool.submit(ones, torch.ones(2, device="hpu")).result(timeout=60)
        finally:
            assert pool.submit(ones, "cpu").result(timeout=60).tolist() == [1, 1]


def send():
    mp.get_context("spawn").Pipe()[0].send(torch.nn.Parameter(torch.ones(2, device="hpu")))


def storage():
    mp.get_context("spawn").Pipe()[0].send(torch.ones(2, device="hpu").untyped_storage())


if __name__ == "__main__":
    import habana_frameworks.torch
    start = time.monotonic()
    print(receive("cpu").tolist())
    for name in ("load", "receive", "pool", "executor", "send", "storage"):
        try:
            receive("hpu") if name == "receive" else globals()[name]()
        except Exception as error:
            print(name, type(error).__name__, "tensor on hpu cannot be sent to another process" in str(error))
    print(time.monotonic() - start < 60)
"""


@pytest.mark.nightly("starts four processes", every=2)
def test_transfer_is_one_clear_error(tmp_path, run_python, entry_point_arguments):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run_python(
        f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')",
        **entry_point_arguments,
        timeout=150,
    )
    assert done.stdout.splitlines() == [
        "[1.0, 1.0]",
        "load RuntimeError True",
        "receive RuntimeError True",
        "pool MaybeEncodingError True",
        "executor RuntimeError True",
        "send RuntimeError True",
        "storage RuntimeError True",
        "True",
    ], done.stderr


def test_old_device_name_is_explained(run_python):
    done = run_python("import torch, habana_frameworks.torch\ntorch.ones(1, device='habana')")
    assert done.stderr.splitlines()[-1] == "'habana' is the old name of the device. Write 'hpu'."
    done = run_python("import torch, habana_frameworks.torch\ntorch.ones(1, device='banana')")
    assert "Write 'hpu'" not in done.stderr
