"""Check ``torch.save`` and ``torch.load``: values, shared memory, ``map_location``, files, ``weights_only``,
and training states.
"""

from __future__ import annotations

import collections
import copy
import gzip
import io
import pathlib
import pickle
import tempfile
import zipfile
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


def saved_to_buffer(value: Any, **options: Any) -> io.BytesIO:
    """Return a buffer, positioned at its start, that contains the saved value."""
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def save_and_load(value: Any, **options: Any) -> Any:
    """Save a value to a buffer and return the value that ``torch.load`` reads from it. ``options`` are
    options of ``torch.load``.
    """
    return torch.load(saved_to_buffer(value), **options)


@behaviour("serialization", dtypes=ALL, level="core", must_detect=("value",))
def saved_tensors(lab: Lab) -> None:
    """A saved tensor is loaded on its device with its values, dtype, shape and strides. This holds with and
    without ``weights_only`` and in both file formats.
    """
    base = lab.integers(3, 4) + lab.integers(3, 4)
    parts = {
        "whole": base,
        "transposed": base.t(),
        "part": base[1:, ::2],
        "scalar": base[1, 1],
        "nothing": base[:0],
    }
    for name, part in parts.items():
        for weights_only in (True, False):
            lab.same(
                f"{name}, weights_only={weights_only}",
                save_and_load(part, weights_only=weights_only),
                strides=True,
            )
        old = torch.load(saved_to_buffer(part, _use_new_zipfile_serialization=False))
        lab.same(f"{name} in the old format", old, strides=True)
    with lab.consistent("The unpickled tensor and the original must be equal"):
        lab.same("pickled", pickle.loads(pickle.dumps(base)))
        lab.same(
            "pickled by each protocol", [pickle.loads(pickle.dumps(base, protocol)) for protocol in (2, 4, 5)]
        )
    first = save_and_load(base)
    lab.apart("a saved tensor and the loaded tensor", base, first)
    lab.holds("the loaded tensor is on the device of the saved tensor", first.device == base.device)


@behaviour("serialization", level="core", must_detect=("value",), capabilities=("storage",))
def saved_sharing(lab: Lab) -> None:
    """Tensors that share memory before saving share memory after loading. An object that is saved twice is
    loaded as one object. The whole storage of a view is saved.
    """
    base = lab.integers(5, 5) * 1
    tensors = [base, base, base[1:3], base.view(25)[2:9], base.clone(), base.t()]
    for name, loaded in (
        ("the new format", save_and_load(tensors)),
        ("the old format", torch.load(saved_to_buffer(tensors, _use_new_zipfile_serialization=False))),
        ("weights_only=False", save_and_load(tensors, weights_only=False)),
        ("pickle", pickle.loads(pickle.dumps(tensors[:4]))),
        ("deepcopy", copy.deepcopy(tensors)),
    ):
        lab.same(f"{name}: values", list(loaded[:4]))
        with lab.consistent("The loaded list must contain one object twice, as the saved list does"):
            lab.holds(f"{name}: an object saved twice is loaded as one object", loaded[0] is loaded[1])
        if name == "pickle":
            continue
        lab.shares(f"{name}: a tensor and its row", loaded[0], loaded[2])
        lab.shares(f"{name}: a tensor and its range", loaded[0], loaded[3])
        lab.shares(f"{name}: a tensor and its transpose", loaded[0], loaded[5])
        lab.apart(f"{name}: a tensor and a clone", loaded[0], loaded[4])
        loaded[2].fill_(9)
        lab.same(f"{name}: after a write", loaded[0])
        lab.same(f"{name}: the clone after a write to the tensor", loaded[4])
    views = torch.arange(100.0, device=lab.device)[:2]
    lab.holds("the whole storage of a view is saved", save_and_load(views).untyped_storage().nbytes() >= 400)
    lab.holds(
        "the saved storage of a clone is small", save_and_load(views.clone()).untyped_storage().nbytes() < 400
    )


@behaviour("serialization", level="core", must_detect=("value",), page="generated/torch.load.html")
def map_locations(lab: Lab) -> None:
    """``map_location`` moves loaded tensors to a device by name, device, dictionary or function."""
    base = lab.integers(2, 3) * 1
    state = {"weight": base, "step": 3, "nested": [base[0]]}
    device = str(base.device)
    location: Any
    for name, location in {
        "a name": "cpu",
        "a device": torch.device("cpu"),
        "a dictionary": {device: "cpu"},
        "a function": lambda storage, where: storage.cpu(),
        "a function by name": lambda storage, where: storage if where == "cpu" else storage.cpu(),
    }.items():
        loaded = torch.load(saved_to_buffer(state), map_location=location)
        lab.same(f"to the host by {name}", loaded["weight"], host=True)
        lab.shares(f"by {name}, a tensor and its row", loaded["weight"], loaded["nested"][0])
    host = {"weight": base.cpu()}
    for name, location in {
        "a name": lab.device.type,
        "a device": lab.device,
        "a dictionary": {"cpu": device},
    }.items():
        lab.same(
            f"to the device by {name}", torch.load(saved_to_buffer(host), map_location=location)["weight"]
        )
    lab.same("nothing to move", torch.load(saved_to_buffer(state), map_location={})["weight"])
    with torch.device(lab.device), lab.parity("No page says how torch.device acts on a load"):
        lab.same("under torch.device", torch.load(saved_to_buffer(host))["weight"].shape)
    meta = torch.load(saved_to_buffer(state), map_location="meta")["weight"]
    lab.expect("to meta", [meta.device.type, list(meta.shape)], ["meta", [2, 3]])
    lab.raises(
        "a map_location dictionary with an unknown device",
        lambda: torch.load(saved_to_buffer(state), map_location={device: "nosuch"}),
        RuntimeError,
        AttributeError,
    )
    lab.raises(
        "a map_location that does not exist",
        lambda: torch.load(saved_to_buffer(state), map_location="nosuch:0"),
        RuntimeError,
    )


@behaviour("serialization", level="core", must_detect=("value",), page="generated/torch.save.html")
def save_targets(lab: Lab) -> None:
    """``torch.save`` writes to paths, open files, buffers and compressed files, also if the file already
    contains other data. ``torch.load`` reads all of them.
    """
    base = lab.integers(4, 4) * 1
    with tempfile.TemporaryDirectory(suffix="é パス") as folder:
        path = pathlib.Path(folder) / "tensor.pt"
        torch.save(base, path)
        lab.same("a path", torch.load(path))
        lab.same("a name", torch.load(str(path)))
        with open(path, "rb") as file:
            lab.same("a file", torch.load(file))
        torch.save(base, str(path))
        lab.same("a name to write", torch.load(path))
        lab.same("mapped", torch.load(path, mmap=True, map_location="cpu"), host=True)
        lab.same("mapped, to the device", torch.load(path, mmap=True))
        packed = pathlib.Path(folder) / "tensor.gz"
        with gzip.open(packed, "wb") as file:
            pickle.dump(41, file)
            torch.save(base, file, _use_new_zipfile_serialization=False)  # type: ignore[arg-type]
        with (
            gzip.open(packed, "rb") as file,
            lab.parity("No page says that a file may contain other data before a saved object"),
        ):
            lab.expect("what comes before", pickle.load(file), 41)
            lab.same("compressed", torch.load(file))  # type: ignore[arg-type]
        lab.same("a zip", zipfile.is_zipfile(path))
    buffer = io.BytesIO()
    for number in (1, 2):
        pickle.dump(number, buffer)
        torch.save(base * number, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    for number in (1, 2):
        with lab.parity("No page says that a file may contain other data before a saved object"):
            lab.expect("a number between", pickle.load(buffer), number)
            lab.same("a tensor between", torch.load(buffer))
    fake = torch.tensor([80, 75, 5, 6] + [0] * 100, dtype=torch.uint8, device=lab.device)
    with lab.consistent("The loaded bytes and the saved bytes must be equal"):
        lab.same(
            "loaded bytes that begin like a zip file",
            torch.load(saved_to_buffer(fake, _use_new_zipfile_serialization=False)),
        )


class _RecordingReader(io.RawIOBase):
    """A file with only the methods that ``torch.load`` documents. It records whether ``read`` and
    ``readinto`` were called.
    """

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)
        self.used: set[str] = set()

    def read(self, size: int = -1) -> bytes:
        self.used.add("read")
        return self.inner.read(size)

    def readline(self, size: int | None = -1) -> bytes:
        return self.inner.readline(-1 if size is None else size)

    def readinto(self, view: Any) -> int:
        self.used.add("readinto")
        return self.inner.readinto(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


class _UnseekableStream:
    """A stream that has neither ``seek`` nor ``tell``."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.inner.read(size)

    def readline(self) -> bytes:
        return self.inner.readline()


@behaviour("serialization", must_detect=("value", "error", "message"), page="generated/torch.load.html")
def file_like_objects(lab: Lab) -> None:
    """``torch.load`` accepts any object with ``read``, ``readline``, ``seek`` and ``tell``, and calls
    ``readinto`` if it exists. An object without ``seek`` raises an error.
    """
    base = lab.integers(30, 40) * 1
    for zipped in (True, False):
        data = saved_to_buffer(base, _use_new_zipfile_serialization=zipped).getvalue()
        reader = _RecordingReader(data)
        lab.same(f"a reader, zip={zipped}", torch.load(reader))  # type: ignore[arg-type]
        with lab.parity("No page says that readinto is used"):
            lab.holds(f"readinto is used, zip={zipped}", "readinto" in reader.used)
    data = saved_to_buffer(base).getvalue()
    unseekable: Any = _UnseekableStream(data)
    lab.raises("a stream that cannot seek", lambda: torch.load(unseekable), AttributeError, match="seekable")
    lab.raises("saving into a tensor", lambda: torch.save("text", base), AttributeError, TypeError)  # type: ignore[arg-type]
    lab.raises("saving into a list", lambda: torch.save(base, []), AttributeError, TypeError)  # type: ignore[arg-type]
    with lab.parity("No page says that the call is an error"):
        lab.raises("an empty file", lambda: torch.load(io.BytesIO()), EOFError, RuntimeError)
        lab.raises(
            "half a file",
            lambda: torch.load(io.BytesIO(data[: len(data) // 2])),
            RuntimeError,
            EOFError,
            pickle.UnpicklingError,
        )
        lab.raises("a missing path", lambda: torch.load("/nonexistent/nothing.pt"), FileNotFoundError)
        lab.raises(
            "rubbish",
            lambda: torch.load(io.BytesIO(b"nothing of the kind")),
            pickle.UnpicklingError,
            RuntimeError,
            EOFError,
        )


class CallsPrintWhenLoaded:
    """A class whose pickle calls ``print``. A load with ``weights_only=True`` must raise an error for it."""

    def __reduce__(self) -> Any:
        return (print, ("loaded",))


Pair = collections.namedtuple("Pair", ["left", "right"])


@behaviour("serialization", level="core", must_detect=("value", "error"))
def weights_only_loading(lab: Lab) -> None:
    """A load with ``weights_only=True`` accepts tensors in containers, numbers and allowed classes. Any other
    class raises an error that names the class.
    """
    base = lab.integers(2, 2) * 1
    state = collections.OrderedDict(
        weight=base,
        parameter=torch.nn.Parameter(base.clone()),
        numbers=[1, 2.5, True, None, 1 + 2j],
        words=("text", b"bytes"),
        size=torch.Size([2, 3]),
        dtype=torch.float16,
        device=torch.device("cpu"),
        kinds={1, 2},
        nested={"a": {"b": [base[0]]}},
    )
    loaded = save_and_load(state)
    lab.same("tensors", [loaded["weight"], loaded["nested"]["a"]["b"][0], loaded["parameter"].detach()])
    lab.holds("a loaded parameter is a Parameter", isinstance(loaded["parameter"], torch.nn.Parameter))
    lab.same("the others", [loaded[key] for key in ("numbers", "words", "size", "dtype", "device", "kinds")])
    lab.same("the order of keys", list(loaded))
    lab.raises(
        "a function to call",
        lambda: save_and_load(CallsPrintWhenLoaded(), weights_only=True),
        pickle.UnpicklingError,
        match="(?i)weights_only|unsupported",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "by default, too",
        lambda: save_and_load(CallsPrintWhenLoaded()),
        pickle.UnpicklingError,
        match="(?i)weights",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "a module",
        lambda: save_and_load(torch.nn.Linear(1, 1)),
        pickle.UnpicklingError,
        match="Linear",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "another class",
        lambda: save_and_load(Pair(base, 1)),
        pickle.UnpicklingError,
        match="Pair",
        text_is_documented=True,
        type_is_documented=True,
    )
    with torch.serialization.safe_globals([Pair]):
        lab.same("a class in safe_globals", list(save_and_load(Pair(base, 1))))
    lab.raises(
        "the class after safe_globals has ended",
        lambda: save_and_load(Pair(base, 1)),
        pickle.UnpicklingError,
        match="Pair",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.same("without the limit", list(save_and_load(Pair(base, 1), weights_only=False)))
    module = torch.nn.Linear(2, 2, device=lab.device)
    with torch.no_grad():
        module.weight.copy_(base)
    lab.same("a state dict", save_and_load(module.state_dict())["weight"])
    whole = save_and_load(module, weights_only=False)
    lab.same("a module with weights_only=False", whole.weight.detach())


@behaviour(
    "serialization",
    must_detect=("value",),
    basis="consistency",
    ground="The loaded object and the saved object must have the same attributes and flags",
)
def saved_attributes_and_bits(lab: Lab) -> None:
    """``requires_grad``, Python attributes, and conjugate and negative bits are the same after loading."""
    base: Any = lab.floats(2, 2) * 1
    base.note = "kept"
    for weights_only in (True, False):
        lab.expect(
            f"an attribute, {weights_only}", save_and_load(base, weights_only=weights_only).note, "kept"
        )
        leaf = base.detach().clone().requires_grad_()
        lab.same(
            f"gradients are required, {weights_only}",
            save_and_load(leaf, weights_only=weights_only).requires_grad,
        )
        weight = torch.nn.Parameter(base.detach().clone(), requires_grad=False)
        loaded = save_and_load(weight, weights_only=weights_only)
        lab.same(f"a frozen parameter, {weights_only}", [loaded.requires_grad, type(loaded).__name__])
        turned = torch.tensor([1 + 2j, 3j], device=lab.device).conj()
        loaded_view = save_and_load(turned, weights_only=weights_only)
        lab.expect(f"a conjugate, {weights_only}", loaded_view.resolve_conj(), [1 - 2j, -3j])
        negative = save_and_load(turned.imag, weights_only=weights_only)
        lab.expect(f"a negative view, {weights_only}", negative.resolve_neg(), [-2.0, -3.0])
    lab.same("pickled", pickle.loads(pickle.dumps(turned)).resolve_conj())
    lab.same("pickled flags", pickle.loads(pickle.dumps(leaf)).requires_grad)
    lab.same("a dtype", [pickle.loads(pickle.dumps(torch.int16)), save_and_load(torch.bfloat16)])
    lab.same("a size", [pickle.loads(pickle.dumps(base.shape)), save_and_load(base.shape)])
    lab.holds(
        "a pickled or copied device is equal",
        pickle.loads(pickle.dumps(base.device)) == base.device == copy.deepcopy(base.device),
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "a tensor and a view of another dtype",
            lambda: saved_to_buffer([base, base.view(torch.int32)]),
            RuntimeError,
            match="view the same data as different types",
        )


@behaviour(
    "serialization",
    dtypes=("float8_e4m3fn", "float8_e5m2", "complex32", "uint16", "uint32", "uint64"),
    must_detect=("value",),
)
def saved_rare_dtypes(lab: Lab) -> None:
    """Tensors of rare dtypes, and views of them, are equal to the saved tensors after loading."""
    bytes_of = torch.arange(64, dtype=torch.uint8, device=lab.device) ^ torch.ones(
        64, dtype=torch.uint8, device=lab.device
    )
    base = bytes_of.view(lab.dtype)
    for weights_only in (True, False):
        loaded = save_and_load({"all": base, "odd": base[1::2]}, weights_only=weights_only)
        lab.same(
            f"bytes, {weights_only}",
            [loaded["all"].view(torch.uint8), loaded["all"].dtype, loaded["odd"].shape],
        )
        lab.shares(f"a tensor and its part, {weights_only}", loaded["all"], loaded["odd"])
    with lab.parity("No page says that tensors on meta can be saved"):
        lab.same(
            "meta",
            [
                save_and_load(torch.empty(3, 4, device="meta")).shape,
                save_and_load(torch.empty(2, device="meta")).device.type,
            ],
        )


@behaviour(
    "serialization",
    capabilities=("sparse", "sparse_compressed"),
    must_detect=("value",),
    basis="consistency",
    ground="The loaded tensor and the saved tensor must have the same layout, values and state",
)
def saved_sparse(lab: Lab) -> None:
    """Sparse tensors have the same layout, values, size and coalesced state after loading."""
    dense = lab.put([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0] * 4, [3.0, 0.0, 0.0, 4.0]]) * 1
    sparse_tensors = {
        "COO": dense.to_sparse(),
        "CSR": dense.to_sparse_csr(),
        "CSC": dense.to_sparse_csc(),
        "BSR": dense.to_sparse_bsr((2, 2)),
        "BSC": dense.to_sparse_bsc((2, 2)),
    }
    for name, sparse in sparse_tensors.items():
        for weights_only in (True, False):
            loaded = save_and_load({"x": sparse}, weights_only=weights_only)["x"]
            lab.same(f"{name}, {weights_only}", [loaded.layout, loaded.shape, loaded.to_dense()])
        lab.same(
            f"{name}, moved", torch.load(saved_to_buffer(sparse), map_location="cpu").to_dense(), host=True
        )
    again_coo = save_and_load(sparse_tensors["COO"])
    lab.same("coalesced", again_coo.is_coalesced())
    loose = torch.sparse_coo_tensor(lab.put([[0, 0]]), lab.put([1.0, 2.0]), (2,), device=lab.device)
    lab.same("not coalesced", [save_and_load(loose).is_coalesced(), save_and_load(loose).to_dense()])


@behaviour(
    "serialization",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
    basis="consistency",
    ground="A training resumed from saved states and one without pause must give the same weights",
)
def saved_training(lab: Lab) -> None:
    """The states of modules, optimizers and schedulers can be loaded on the device and on the CPU. Training
    then continues with the same results.
    """
    weights = lab.floats(2, 3)
    inputs = lab.floats(4, 3)

    def make_training() -> tuple[torch.nn.Linear, torch.optim.Optimizer, Any]:
        module = torch.nn.Linear(3, 2, bias=False, device=lab.device)
        with torch.no_grad():
            module.weight.copy_(weights)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.5)
        return module, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def train_one_step(module: torch.nn.Linear, optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
        optimizer.zero_grad()
        module(inputs).sum().backward()
        optimizer.step()
        scheduler.step()

    first = make_training()
    train_one_step(*first)
    buffer = saved_to_buffer([part.state_dict() for part in first])
    train_one_step(*first)
    lab.close("the weights of a run without pause", first[0].weight.detach(), roundings=64)
    for location in (None, "cpu"):
        buffer.seek(0)
        restored = make_training()
        for part, state in zip(restored, torch.load(buffer, map_location=location), strict=True):
            part.load_state_dict(state)
        train_one_step(*restored)
        lab.close(
            f"the weights of a run loaded by way of {location}", restored[0].weight.detach(), roundings=64
        )
    lab.same("the state of the scheduler", save_and_load(first[2].state_dict())["last_epoch"])
