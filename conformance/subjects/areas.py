"""Areas of torch's API: the subjects of behaviours."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Area:
    """A part of torch's API that a group of behaviours checks. All these behaviours require ``capabilities``.

    ``documentation`` is the path of the documentation page about this part. The path is relative to
    :data:`conformance.model.documentation.ROOT`.
    """

    about: str
    documentation: str
    capabilities: tuple[str, ...] = ()


AREAS: dict[str, Area] = {
    "creation": Area("factory functions, and copies into new tensors", "torch.html"),
    "tensor": Area("attributes, conversions and methods of tensors", "tensors.html"),
    "storage": Area("storages, and tensors that use them", "storage.html"),
    "printing": Area("printing of tensors", "generated/torch.set_printoptions.html"),
    "exchange": Area("NumPy, DLPack, buffers and Python numbers", "dlpack.html"),
    "serialization": Area("saving and loading", "notes/serialization.html", ("serialization",)),
    "copying": Area("copies between devices, dtypes and layouts", "generated/torch.Tensor.to.html"),
    "views": Area("views and the storage that they share", "tensor_view.html", ("views",)),
    "indexing": Area("reading and writing by index, mask and slice", "torch.html"),
    "shape": Area("operators that move elements", "torch.html"),
    "sorting": Area("sorting, selecting and searching", "torch.html"),
    "scatter": Area("gather and scatter", "generated/torch.Tensor.scatter_.html"),
    "promotion": Area("type promotion", "tensor_attributes.html"),
    "pointwise": Area("unary and binary operators", "torch.html"),
    "reductions": Area("reductions and scans", "torch.html"),
    "linalg": Area("linear algebra", "linalg.html"),
    "fft": Area("Fourier transforms", "fft.html"),
    "foreach": Area("operators over lists of tensors", "torch.html", ("foreach",)),
    "sparse": Area("COO tensors", "sparse.html", ("sparse",)),
    "sparse-compressed": Area("CSR, CSC, BSR and BSC tensors", "sparse.html", ("sparse_compressed",)),
    "nested": Area("nested tensors", "nested.html", ("nested",)),
    "quantized": Area("quantized tensors", "quantization.html", ("quantized",)),
    "autograd": Area("the engine of backward passes", "notes/autograd.html", ("autograd",)),
    "forward-ad": Area("forward-mode differentiation", "autograd.html", ("forward_ad",)),
    "checkpoint": Area("recomputation in backward passes", "checkpoint.html", ("autograd",)),
    "functorch": Area("function transforms", "func.api.html", ("functorch",)),
    "control-flow": Area("cond, while_loop, scan and map", "higher_order_ops/index.html", ("functorch",)),
    "nn": Area("modules and torch.nn.functional", "nn.html"),
    "attention": Area(
        "scaled dot product attention and transformers",
        "generated/torch.nn.functional.scaled_dot_product_attention.html",
    ),
    "optim": Area("optimizers and schedulers", "optim.html", ("autograd",)),
    "autocast": Area("autocast and gradient scaling", "amp.html", ("autocast",)),
    "random": Area("random numbers and generators", "notes/randomness.html", ("random",)),
    "distributions": Area("torch.distributions", "distributions.html", ("random",)),
    "dataloader": Area("DataLoader and pinned memory", "data.html", ("dataloader",)),
    "multiprocessing": Area("tensors that processes share", "multiprocessing.html", ("multiprocessing",)),
    "accelerator": Area(
        "torch.accelerator, guards and the device's module", "accelerator.html", ("accelerator",)
    ),
    "memory": Area(
        "memory allocation, statistics and out-of-memory errors", "accelerator.html", ("memory_statistics",)
    ),
    "determinism": Area(
        "deterministic algorithms", "generated/torch.use_deterministic_algorithms.html", ("deterministic",)
    ),
    "custom-operators": Area("torch.library", "library.html", ("custom_operators",)),
    "fake": Area(
        "fake and meta tensors",
        "user_guide/torch_compiler/torch.compiler_fake_tensor.html",
        ("fake_tensors",),
    ),
    "aot": Area(
        "ahead-of-time autograd and tracing",
        "user_guide/torch_compiler/torch.compiler_transformations.html",
        ("functorch",),
    ),
    "export": Area("torch.export", "user_guide/torch_compiler/export.html", ("export",)),
    "programs": Area("small programs of operators, views and writes", "tensor_view.html", ("views",)),
    "subclass": Area("tensor subclasses, modes and overrides", "notes/extending.html"),
}

#: Areas of torch.distributed: the subjects of kind ``world``.
WORLD: dict[str, Area] = {
    "groups": Area("process groups, from start to end", "distributed.html"),
    "objects": Area("Python objects that ranks exchange", "distributed.html"),
    "failures": Area("ranks that are late, wrong or crashed", "distributed.html"),
    "mesh": Area("device meshes and distributed tensors", "distributed.tensor.html"),
    "tensor-parallel": Area(
        "modules whose weights are distributed over ranks", "distributed.tensor.parallel.html"
    ),
    "ddp": Area("DistributedDataParallel", "notes/ddp.html"),
    "fsdp1": Area("FullyShardedDataParallel", "fsdp.html"),
    "fsdp2": Area("fully_shard", "distributed.fsdp.fully_shard.html"),
    "checkpoints": Area("distributed checkpoints and state dicts", "distributed.checkpoint.html"),
    "batch-norm": Area("SyncBatchNorm", "generated/torch.nn.SyncBatchNorm.html"),
    "compiled-training": Area("torch.compile around distributed training", "notes/ddp.html"),
}
