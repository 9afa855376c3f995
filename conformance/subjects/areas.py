"""Areas of torch's API: the subjects of behaviours."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Area:
    """A part of the API that is stated together; ``capabilities`` are what all of it needs."""

    about: str
    capabilities: tuple[str, ...] = ()


AREAS: dict[str, Area] = {
    "creation": Area("factories and what copies into new tensors"),
    "tensor": Area("attributes, conversions and methods of tensors"),
    "storage": Area("storages, and tensors over them"),
    "printing": Area("how tensors print"),
    "exchange": Area("NumPy, DLPack, buffers and Python numbers"),
    "serialization": Area("saving and loading", ("serialization",)),
    "copying": Area("copies between devices, dtypes and layouts"),
    "views": Area("views and what they share", ("views",)),
    "indexing": Area("reading and writing by index, mask and slice"),
    "shape": Area("operators that move elements"),
    "sorting": Area("sort, select, search"),
    "scatter": Area("gather and scatter"),
    "promotion": Area("type promotion"),
    "pointwise": Area("unary and binary operators"),
    "reductions": Area("reductions and scans"),
    "linalg": Area("linear algebra"),
    "fft": Area("Fourier transforms"),
    "foreach": Area("operators over lists of tensors", ("foreach",)),
    "sparse": Area("COO tensors", ("sparse",)),
    "sparse-compressed": Area("CSR, CSC, BSR and BSC tensors", ("sparse_compressed",)),
    "nested": Area("nested tensors", ("nested",)),
    "quantized": Area("quantized tensors", ("quantized",)),
    "autograd": Area("the engine of backward passes", ("autograd",)),
    "forward-ad": Area("forward-mode differentiation", ("forward_ad",)),
    "checkpoint": Area("recomputation in backward passes", ("autograd",)),
    "functorch": Area("function transforms", ("functorch",)),
    "control-flow": Area("cond, while_loop, scan and map", ("functorch",)),
    "nn": Area("modules and torch.nn.functional"),
    "attention": Area("scaled dot product attention and transformers"),
    "optim": Area("optimizers and schedulers", ("autograd",)),
    "autocast": Area("autocast and gradient scaling", ("autocast",)),
    "random": Area("random numbers and generators", ("random",)),
    "distributions": Area("torch.distributions", ("random",)),
    "dataloader": Area("DataLoader and pinned memory", ("dataloader",)),
    "multiprocessing": Area("tensors and processes", ("multiprocessing",)),
    "accelerator": Area("torch.accelerator, guards and the device's module"),
    "memory": Area("allocation, statistics and running out", ("memory_statistics",)),
    "determinism": Area("deterministic algorithms", ("deterministic",)),
    "custom-operators": Area("torch.library", ("custom_operators",)),
    "fake": Area("fake and meta tensors", ("fake_tensors",)),
    "aot": Area("ahead-of-time autograd and tracing", ("functorch",)),
    "export": Area("torch.export", ("export",)),
    "programs": Area("small programs of operators, views and writes", ("views",)),
    "subclass": Area("tensor subclasses, modes and overrides"),
}

#: What several ranks do together: the subjects of kind ``world``.
WORLD: dict[str, str] = {
    "groups": "process groups, from start to end",
    "objects": "objects of Python that travel",
    "failures": "ranks that are late, wrong or dead",
    "mesh": "device meshes and distributed tensors",
    "tensor-parallel": "modules whose weights are spread over ranks",
    "ddp": "DistributedDataParallel",
    "fsdp1": "FullyShardedDataParallel",
    "fsdp2": "fully_shard",
    "checkpoints": "distributed checkpoints and state dicts",
    "batch-norm": "SyncBatchNorm",
    "compiled-training": "torch.compile around distributed training",
}
