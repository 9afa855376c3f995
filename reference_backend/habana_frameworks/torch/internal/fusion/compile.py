"""Compile the description of a recorded graph to a folder.

The folder contains the shared object that AOTInductor creates, and its calling convention.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from . import fx_graph_builder as builder
from .artifact import CODE, CONVENTION, Artifact
from .description import VERSION, NotFusable, digest_of, dumps

# File in which AOTInductor lists the operators that the compiled code calls by name.
EXTERNAL_OPERATORS = "code.json"
_OPTIONS: dict[str, Any] = {
    "max_autotune": False,
    "max_autotune_gemm": False,
    "freezing": False,
    # Fused results must equal the results of separate operators, also for bfloat16 and float16.
    "emulate_precision_casts": True,
    "aot_inductor.use_runtime_constant_folding": False,
    "aot_inductor.enable_line_tables": False,
    "aot_inductor.enable_frame_pointer": False,
    "aot_inductor.dump_aoti_minifier": False,
}


def _inductor_options() -> dict[str, Any]:
    """Return the options in `_OPTIONS` that Inductor of this torch release supports."""
    from torch._inductor import config

    supported = config.get_config_copy() if hasattr(config, "get_config_copy") else config.shallow_copy_dict()
    return {name: value for name, value in _OPTIONS.items() if name in supported}


def _calling_convention(built: builder.BuiltGraph, digest: str) -> dict[str, Any]:
    arguments = [
        {
            "buffer": argument.buffer,
            "dtype": str(argument.layout.dtype).removeprefix("torch."),
            "sizes": list(argument.layout.sizes),
            "strides": list(argument.layout.strides),
            "offset": argument.layout.offset,
            "access": argument.access,
        }
        for argument in built.arguments
    ]
    return {"version": VERSION, "torch": torch.__version__, "digest": digest, "arguments": arguments}


def _random_tensor_like(fake: torch.Tensor) -> torch.Tensor:
    """Return a random CPU tensor with the metadata of a fake tensor. Integers are 0 or 1 (valid indices)."""
    size = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True)) + 1
    if fake.dtype.is_floating_point or fake.dtype.is_complex:
        memory = torch.randn(size, dtype=torch.complex64 if fake.dtype.is_complex else torch.float32)
    else:
        memory = torch.randint(0, 2, (size,))
    return memory.to(fake.dtype).as_strided(fake.shape, fake.stride())


def verify_compiled_code(built: builder.BuiltGraph, code: Path) -> None:
    """Run compiled code and its source module on the same random data, and compare the results.

    Args:
        built: the module from which the code was compiled, and its arguments.
        code: path of the shared object.

    Raises:
        AssertionError: the results differ by more than torch.testing's tolerances.
    """
    from torch._C import _aoti

    torch.manual_seed(0)
    expected = [_random_tensor_like(fake) for fake in built.fakes]
    actual = [
        torch.empty(0, dtype=old.dtype).set_(old.untyped_storage().clone(), 0, old.shape, old.stride())
        for old in expected
    ]
    built.module(*expected)
    runner = _aoti.AOTIModelContainerRunnerCpu(str(code), 1)
    runner.run(actual)
    for argument, result, reference in zip(built.arguments, actual, expected, strict=True):
        message_with_name = functools.partial("{}: {}".format, argument)
        torch.testing.assert_close(result, reference, equal_nan=True, msg=message_with_name)


def compile_description(
    description: dict[str, Any], folder: str | os.PathLike[str], check: bool = False
) -> Artifact:
    """Compile the description of a recorded graph, and write the code to a folder.

    Args:
        description: result of `Graph.describe()`.
        folder: folder for the artifact; it is created.
        check: run `verify_compiled_code` on the compiled code.

    Raises:
        NotFusable: the description cannot be compiled.
        AssertionError: `verify_compiled_code` failed.
        Exception: Inductor failed.
    """
    digest = digest_of(dumps(description))
    with torch.no_grad():
        built = builder.build_module(description)
        if not any(argument.access != "read" for argument in built.arguments):
            raise NotFusable("nothing is written")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=target))
        try:
            _compile_with_inductor(built, work / CODE)
            # Older releases of torch name this file code.json, newer releases *.wrapper.json.
            for listed in (work / EXTERNAL_OPERATORS, *work.glob("*.wrapper.json")):
                if listed.exists():
                    os.replace(listed, target / EXTERNAL_OPERATORS)
            os.replace(work / CODE, target / CODE)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        convention = _calling_convention(built, digest)
        (target / CONVENTION).write_text(json.dumps(convention, indent=1))
        if check:
            verify_compiled_code(built, target / CODE)
    return Artifact(target, convention)


def _compile_with_inductor(built: builder.BuiltGraph, path: Path) -> None:
    import torch._inductor

    # Inductor writes torch's thread count into the code, unless the count is the number of processors. Code
    # without a written count uses the thread count of the calling thread, which is intended.
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        options = {**_inductor_options(), "aot_inductor.output_path": str(path)}
        written = torch._inductor.aot_compile(built.module, tuple(built.fakes), options=options)
    finally:
        torch.set_num_threads(threads)
    if Path(str(written)) != path:
        raise RuntimeError(f"AOTInductor wrote {written} instead of {path}")
