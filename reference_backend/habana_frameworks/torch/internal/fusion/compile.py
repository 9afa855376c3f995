"""A description into a folder with a shared object (AOTInductor) and its calling convention."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from . import build as builder
from .artifact import CODE, CONVENTION, Artifact
from .description import VERSION, NotFusable, digest_of, dumps

# Where the runner looks for the operators that it has to call by name.
EXTERNAL_OPERATORS = "code.json"
_OPTIONS: dict[str, Any] = {
    "max_autotune": False,
    "max_autotune_gemm": False,
    "freezing": False,
    # Results have to be those of the operators one by one, for bfloat16 and float16 too.
    "emulate_precision_casts": True,
    "aot_inductor.use_runtime_constant_folding": False,
    "aot_inductor.enable_line_tables": False,
    "aot_inductor.enable_frame_pointer": False,
    "aot_inductor.dump_aoti_minifier": False,
}


def _options() -> dict[str, Any]:
    """The options that this torch has: releases add and drop some."""
    from torch._inductor import config

    known = config.get_config_copy() if hasattr(config, "get_config_copy") else config.shallow_copy_dict()
    return {name: value for name, value in _OPTIONS.items() if name in known}


def _convention(built: builder.Built, digest: str) -> dict[str, Any]:
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


def _example(fake: torch.Tensor) -> torch.Tensor:
    """A tensor like a fake one; integers are small, since they may be indices."""
    size = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True)) + 1
    if fake.dtype.is_floating_point or fake.dtype.is_complex:
        memory = torch.randn(size, dtype=torch.complex64 if fake.dtype.is_complex else torch.float32)
    else:
        memory = torch.randint(0, 2, (size,))
    return memory.to(fake.dtype).as_strided(fake.shape, fake.stride())


def verify(built: builder.Built, code: Path) -> None:
    """Runs the code and the module that it was made from on random data.

    Errors: AssertionError where the results differ by more than torch.testing's tolerances.
    """
    from torch._C import _aoti

    torch.manual_seed(0)
    expected = [_example(fake) for fake in built.fakes]
    given = [
        torch.empty(0, dtype=old.dtype).set_(old.untyped_storage().clone(), 0, old.shape, old.stride())
        for old in expected
    ]
    built.module(*expected)
    runner = _aoti.AOTIModelContainerRunnerCpu(str(code), 1)
    runner.run(given)
    for argument, one, other in zip(built.arguments, given, expected, strict=True):
        torch.testing.assert_close(
            one, other, equal_nan=True, msg=lambda text, argument=argument: f"{argument}: {text}"
        )


def fuse(description: dict[str, Any], folder: str | os.PathLike[str], check: bool = False) -> Artifact:
    """Compiles a description into `folder`, which is made; `check` runs the result against the built module.

    Errors: NotFusable where it cannot be compiled, AssertionError by `check`, and what Inductor raises.
    """
    digest = digest_of(dumps(description))
    with torch.no_grad():
        built = builder.build(description)
        if not any(argument.access != "read" for argument in built.arguments):
            raise NotFusable("nothing is written")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=target))
        try:
            _compile(built, work / CODE)
            # Older releases name it after the code, newer ones after the source beside it.
            for listed in (work / EXTERNAL_OPERATORS, *work.glob("*.wrapper.json")):
                if listed.exists():
                    os.replace(listed, target / EXTERNAL_OPERATORS)
            os.replace(work / CODE, target / CODE)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        convention = _convention(built, digest)
        (target / CONVENTION).write_text(json.dumps(convention, indent=1))
        if check:
            verify(built, target / CODE)
    return Artifact(target, convention)


def _compile(built: builder.Built, path: Path) -> None:
    import torch._inductor

    # Code made for as many threads as there are processors leaves their number to the thread that runs it.
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        options = {**_options(), "aot_inductor.output_path": str(path)}
        made = torch._inductor.aot_compile(built.module, tuple(built.fakes), options=options)
    finally:
        torch.set_num_threads(threads)
    if Path(str(made)) != path:
        raise RuntimeError(f"AOTInductor made {made}, {path} was asked for")
