"""The one door to ``torch.testing._internal``.

Those modules are private to PyTorch and change with each release, so nothing else in this package imports
them. If a release lacks something, the answer is an empty value or ``None``, never an exception; a release
older than :data:`OLDEST` is refused by name.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.process_control.garbage_collector import collector_off

#: The oldest release whose private modules this file was read against, as (major, minor).
OLDEST = (2, 6)


class UnsupportedTorch(RuntimeError):
    """The installed torch does not carry the operator database in a form that is known here."""


def current_accelerator() -> torch.device | None:
    """Return the accelerator of this process, or None. (torch 2.6 raises if there is none.)"""
    try:
        return torch.accelerator.current_accelerator()
    except RuntimeError:
        return None


def torch_version() -> tuple[int, int]:
    """Return (major, minor) of the installed torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _require_version() -> None:
    if torch_version() < OLDEST:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is older than {OLDEST[0]}.{OLDEST[1]}, the oldest release whose "
            "operator database this suite reads; install a newer torch"
        )


@contextlib.contextmanager
def _plain_arguments() -> Iterator[None]:
    """Older releases parse ``sys.argv`` on import; they must not see the suite's own arguments."""
    saved = sys.argv
    sys.argv = saved[:1]
    try:
        yield
    finally:
        sys.argv = saved


@functools.lru_cache(maxsize=1)
def op_db() -> Sequence[Any]:
    """Return all OpInfos of this release, in its own order."""
    _require_version()
    # The collector would go through the growing heap again and again, in vain.
    with collector_off(), _plain_arguments(), preserved_rng():
        from torch.testing._internal.common_methods_invocations import op_db as infos
    _spare_absent_generators()
    without_guard_timing()
    return tuple(infos)


def _spare_absent_generators() -> None:
    """Let entries that seed around their call work if the accelerator's module has no random state.

    Their wrapper saves and sets the state of whatever accelerator is present, also around a call on the CPU;
    without this, none of those entries could run on a device that has no generator yet.
    """
    from torch.testing import _utils

    original = getattr(_utils, "freeze_rng_state", None)
    if original is None or getattr(original, "spares", False):
        return

    @contextlib.contextmanager
    def freeze_rng_state() -> Iterator[None]:
        current = current_accelerator()
        module = None if current is None else getattr(torch, current.type, None)
        if current is None or (hasattr(module, "get_rng_state") and hasattr(module, "set_rng_state")):
            with original():
                yield
            return
        from torch.utils._mode_utils import no_dispatch

        with no_dispatch(), torch._C._DisableFuncTorch():
            state = torch.get_rng_state()
        try:
            yield
        finally:
            with no_dispatch(), torch._C._DisableFuncTorch():
                torch.set_rng_state(state)

    freeze_rng_state.spares = True  # type: ignore[attr-defined]
    _utils.freeze_rng_state = freeze_rng_state


@functools.lru_cache(maxsize=1)
def foreach_db() -> Sequence[Any]:
    """Return the entries of this release for operators over lists of tensors."""
    _require_version()
    with _plain_arguments(), preserved_rng():
        from torch.testing._internal import common_methods_invocations as infos
    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    return tuple(op for kind in kinds for op in getattr(infos, f"foreach_{kind}_op_db", ()))


@functools.lru_cache(maxsize=1)
def module_db() -> Sequence[Any]:
    """Return all ModuleInfos of this release, in its own order."""
    _require_version()
    with _plain_arguments(), preserved_rng():
        from torch.testing._internal.common_modules import module_db as infos
    return tuple(infos)


@functools.lru_cache(maxsize=1)
def optim_db() -> Sequence[Any]:
    """Return all OptimizerInfos of this release, in its own order."""
    _require_version()
    with _plain_arguments(), preserved_rng():
        from torch.testing._internal.common_optimizers import optim_db as infos
    return tuple(infos)


def is_elementwise_unary(info: Any) -> bool:
    """Return whether an OpInfo describes an elementwise operator of one tensor."""
    return type(info).__name__ == "UnaryUfuncInfo"


def is_elementwise_binary(info: Any) -> bool:
    """Return whether an OpInfo describes an elementwise operator of two tensors."""
    return type(info).__name__ == "BinaryUfuncInfo"


def domain(info: Any) -> tuple[float | None, float | None]:
    """Return the bounds between which a function of one real number is defined; None without a bound."""
    low, high = getattr(info, "domain", None) or (None, None)
    return low, high


def is_reduction(info: Any) -> bool:
    """Return whether an OpInfo describes a reduction."""
    return type(info).__name__ == "ReductionOpInfo"


def is_device_specific(info: Any) -> bool:
    """Return whether an entry of the database cannot run on the CPU at all, so that no oracle exists for it.

    Two signs, both from the entry itself: it declares no dtype for the CPU, or it compiles CUDA source at run
    time (the ``jiterator`` entries, which declare CPU dtypes although they have no CPU kernel).
    """
    return not info.dtypes or info.name.startswith("jiterator_")


def seed_for(*words: str) -> int:
    """Return a 32-bit seed made of words only: the same in every process, on every worker and retry."""
    return zlib.crc32("/".join(words).encode())


@contextlib.contextmanager
def preserved_rng() -> Iterator[None]:
    """Leave the host's three generators (torch CPU, Python, NumPy) as they were before."""
    import numpy

    torch_state = torch.default_generator.get_state()
    python_state = random.getstate()
    numpy_state = numpy.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(torch_state)
        random.setstate(python_state)
        numpy.random.set_state(numpy_state)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with the host's generators set to ``seed`` and put them back afterwards.

    The device's generators are left alone: ``torch.manual_seed`` would touch them.
    """
    import numpy

    with preserved_rng():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        yield


@contextlib.contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """Like :func:`seeded`, for torch's CPU generator alone."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings; the operator database warns about its own inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sample_inputs(info: Any, dtype: torch.dtype, *, requires_grad: bool, seed: int) -> list[Any]:
    """Return the SampleInputs of one entry, made on the CPU from ``seed`` only.

    The entry's function is called directly: the public iterator around it seeds every generator again before
    each sample, those of all devices included, by the name of a test that it looks for on the stack.
    """
    with seeded(seed), quiet():
        return list(info.sample_inputs_func(info, "cpu", dtype, requires_grad))


def reference_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> list[Any]:
    """Return the broader SampleInputs (extremal, large, broadcast, …) of one entry, made on the CPU."""
    make = info.reference_inputs_func or info.sample_inputs_func
    with seeded(seed), quiet():
        return list(make(info, "cpu", dtype, False))


def sparse_sample_inputs(
    info: Any, layout: torch.layout, dtype: torch.dtype, *, requires_grad: bool = False, seed: int, limit: int
) -> list[Any]:
    """Return at most ``limit`` SampleInputs of one entry in a sparse layout, made on the CPU; empty if it has
    none there.

    Samples that the database itself marks as refused are left out.
    """
    from unittest import SkipTest

    name = str(layout).removeprefix("torch.")
    if getattr(info, f"sample_inputs_{name}_func", None) is None:
        return []
    try:
        from torch.testing._internal.opinfo.definitions.sparse import validate_sample_input_sparse
    except ImportError:  # pragma: no cover - depends on the release
        return []
    try:
        with seeded(seed), quiet():
            samples = info.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=requires_grad)
            found = list(itertools.islice(samples, limit))
    except (SkipTest, NotImplementedError):
        return []
    validate: Callable[..., Any] = validate_sample_input_sparse
    return [sample for sample in found if validate(info, sample, check_validate=False) is sample]


def foreach_inputs(info: Any, dtype: torch.dtype, *, seed: int, tensors: int = 3) -> list[Any]:
    """Return the SampleInputs of an entry for lists, of that many differentiable tensors, on the CPU."""
    with seeded(seed), quiet():
        make = info.sample_inputs
        return list(make("cpu", dtype, requires_grad=True, num_input_tensors=[tensors]))


def first_sample(info: Any, dtype: torch.dtype, *, seed: int, requires_grad: bool = False) -> Any | None:
    """Return the first SampleInput, or None if the entry makes none in that dtype."""
    with seeded(seed), quiet():
        for sample in info.sample_inputs_func(info, "cpu", dtype, requires_grad):
            return sample
    return None


def error_inputs(info: Any, device: str, *, seed: int) -> list[Any]:
    """Return the ErrorInputs of one entry, made on ``device``; empty if it has none."""
    if getattr(info, "error_inputs_func", None) is None:
        return []
    with seeded(seed), quiet():
        return list(info.error_inputs_func(info, device))


def forward_dtypes(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes that the entry declares for the CPU."""
    return frozenset(info.dtypes)


def backward_dtypes(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes for which the entry declares a backward on the CPU."""
    return frozenset(info.supported_backward_dtypes("cpu")) if info.supports_autograd else frozenset()


def listed_dtypes(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes that the entry declares for any of torch's devices, forward or backward."""
    devices = ("cpu", "cuda", "xpu", "mps")
    found: set[torch.dtype] = set()
    for device in devices:
        found |= set(info.supported_dtypes(device))
        if info.supports_autograd:
            found |= set(info.supported_backward_dtypes(device))
    return frozenset(found)


def composite_checks() -> Any | None:
    """Return the composite-compliance checker (a module), or None if this release has none."""
    try:
        with _plain_arguments(), preserved_rng():
            from torch.testing._internal import composite_compliance
    except ImportError:  # pragma: no cover - depends on the release
        return None
    return composite_compliance


def gradcheck_wrapper(info: Any) -> Callable[..., Any]:
    """Return the entry's own wrapper that keeps perturbed inputs inside its domain (hermitian, triangular,
    …).
    """
    wrapper: Callable[..., Any] | None = getattr(info, "gradcheck_wrapper", None)
    return wrapper if wrapper is not None else (lambda op, *args, **kwargs: op(*args, **kwargs))


def output_process(sample: Any) -> Callable[[Any], Any] | None:
    """Return the function that a SampleInput wants applied before a gradient is taken, or None if it names
    none.
    """
    fn: Callable[[Any], Any] | None = getattr(sample, "output_process_fn_grad", None)
    return fn


def fake_tensor_mode() -> Any:
    """Return a fresh FakeTensorMode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def dynamic_output_errors() -> tuple[type[BaseException], ...]:
    """Return the types that FakeTensor raises if an output's shape or value depends on data."""
    from torch._subclasses import fake_tensor

    names = ("DynamicOutputShapeException", "DataDependentOutputException", "UnsupportedOperatorException")
    return tuple(getattr(fake_tensor, name) for name in names if hasattr(fake_tensor, name))


@contextlib.contextmanager
def operators_run() -> Iterator[list[str]]:
    """Yield a list that holds, at the end, the names (``aten::add``) of the operators run meanwhile, nested
    ones too.
    """
    # The newer one writes to stderr with each use.
    from torch.autograd import profiler_legacy

    names: list[str] = []
    with profiler_legacy.profile() as profile:  # type: ignore[no-untyped-call]
        yield names
    names.extend(sorted({str(event.name) for event in profile.function_events}))


def capturing_all_shapes(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function whose one graph may hold operators with shapes that depend on values.

    torch 2.13 allows that by itself if one whole graph is asked for; 2.6 needs a setting. Releases between
    them were not tried.
    """
    import torch._dynamo.config as config

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13):
        return call

    def with_shapes(*args: Any, **kwargs: Any) -> Any:
        with config.patch(capture_dynamic_output_shape_ops=True):
            return call(*args, **kwargs)

    return with_shapes


def without_guard_timing() -> None:
    """Let Dynamo leave out its measurement of how long guards take: it flushes the caches of the processor,
    takes 8 % of the time of properties that compile, and says something in a log only.
    """
    with contextlib.suppress(ImportError):
        from torch._dynamo import guards

        if hasattr(guards, "profile_guard_manager"):
            guards.profile_guard_manager = lambda *arguments: 0.0


def reset_dynamo() -> None:
    """Forget everything that Dynamo compiled and counted in this process."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()


def graph_breaks() -> dict[str, int]:
    """Return Dynamo's reasons for breaking graphs since the last reset, with how often each came up."""
    from torch._dynamo.utils import counters

    return {str(reason): int(count) for reason, count in counters["graph_break"].items()}


def compile_backend(name: str) -> Callable[..., Any]:
    """Return the function behind the name of a backend of ``torch.compile``; LookupError if there is none."""
    from torch._dynamo.backends import registry

    try:
        backend: Callable[..., Any] = registry.lookup_backend(name)
    except Exception as error:
        raise LookupError(f"torch.compile knows no backend {name!r}: {error}") from error
    return backend


def plain_backend() -> Callable[..., Any]:
    """Return torch's own ``aot_eager``, whatever the registry of backends says of that name."""
    from torch._dynamo.backends.debugging import aot_eager

    backend: Callable[..., Any] = aot_eager
    return backend


def module_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> list[Any]:
    """Return the ModuleInputs of one entry, made on the CPU from ``seed`` only; differentiable inputs require
    grad.
    """
    with seeded(seed), quiet():
        return list(
            info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        )


def module_error_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> list[Any]:
    """Return the ErrorModuleInputs of one entry, made on the CPU; empty if it has none."""
    make = getattr(info, "module_error_inputs_func", None)
    if make is None:
        return []
    with seeded(seed), quiet():
        return list(make(info, device="cpu", dtype=dtype, requires_grad=False, training=training))


def optimizer_inputs(info: Any, *, capturable: bool) -> list[Any]:
    """Return the OptimizerInputs of one entry; with ``capturable`` also those that torch keeps for
    accelerators.
    """
    with quiet():
        return list(info.optim_inputs_func(device="cuda" if capturable else "cpu"))


def optimizer_error_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> list[Any]:
    """Return the ErrorOptimizerInputs of one entry, parameters on the CPU; empty if it has none."""
    make = getattr(info, "optim_error_inputs_func", None)
    if make is None:
        return []
    with seeded(seed), quiet():
        return list(make("cpu", dtype))


@functools.cache
def dispatch_key(device: str) -> str:
    """Return the dispatch key of a device type (``HPU``) in the dispatcher's spelling; empty if it
    has none.
    """
    kind = torch.device(device).type
    if kind == "privateuseone" or kind == torch._C._get_privateuse1_backend_name():
        return "PrivateUse1"
    for word in (kind.upper(), kind.capitalize()):
        try:
            torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", word)
        except Exception:
            continue
        return word
    return ""


def has_kernel(name: str, key: str) -> bool:
    """Return whether an overload (``aten::add.Tensor``) has a kernel of its own at a dispatch key."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:  # an overload of TorchScript's alone
        return False


def overloads(name: str) -> list[str]:
    """Return the names of the overloads of an aten operator, empty for the default one; an empty list if it
    has none.
    """
    packet = getattr(torch.ops.aten, name, None)
    return [] if packet is None else [word.replace("default", "") for word in packet.overloads()]


@contextlib.contextmanager
def every_warning() -> Iterator[None]:
    """Repeat warnings that torch otherwise gives once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def control_flow(name: str) -> Callable[..., Any]:
    """Return ``while_loop``, ``scan``, ``associative_scan`` or ``map``; torch documents them without a public
    name.
    """
    import torch._higher_order_ops as operators

    operator: Callable[..., Any] = getattr(operators, name)
    return operator


def ahead_of_time(
    function: Callable[..., Any], *, dynamic: bool = False, min_cut: bool = False, in_graph: bool = False
) -> Callable[..., Any]:
    """Return a function traced by ahead-of-time autograd at its first call; its graphs run as they are.

    ``in_graph`` keeps writes into inputs in the graph, as torch.compile does; else they are made after it.
    """
    from functorch.compile import aot_function, default_partition, min_cut_rematerialization_partition, nop

    partition = min_cut_rematerialization_partition if min_cut else default_partition
    traced: Callable[..., Any] = aot_function(
        function,
        nop,
        nop,
        partition_fn=partition,
        dynamic=dynamic,
        keep_inference_input_mutations=in_graph,
    )
    return traced


def ahead_of_time_module(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module traced by ahead-of-time autograd at its first call; it shares the parameters."""
    from functorch.compile import aot_module, nop

    traced: torch.nn.Module = aot_module(module, nop, nop, keep_inference_input_mutations=True)
    return traced


def lowered_module(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """Trace a module ahead of time for inputs like those given, real or fake, as backends of torch.compile
    do.
    """
    from functorch.compile import nop
    from torch._functorch.aot_autograd import aot_module_simplified

    graph: Any = module
    return aot_module_simplified(graph, tuple(inputs), nop)


def open_sized(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return fake tensors like the inputs, with sizes that are left open."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    return [mode.from_tensor(tensor) for tensor in inputs]


def exported_graph(
    module: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    *,
    before_dispatch: bool = False,
    loss: int | None = None,
    dynamic: bool | None = None,
) -> tuple[Callable[..., Any], Any]:
    """Return the graph of a module with parameters and buffers as its first inputs, and its signature.

    ``before_dispatch`` keeps operators that are made of others whole; with ``loss``, the index of an output,
    the gradients of the parameters are outputs too.
    """
    from torch._functorch.aot_autograd import aot_export_module

    return aot_export_module(
        module,
        tuple(inputs),
        trace_joint=loss is not None,
        output_loss_index=loss,
        pre_dispatch=before_dispatch,
        dynamic_shapes=dynamic,
    )


def exported_function(
    function: Callable[..., Any], inputs: Sequence[Any], *, joint: bool = False
) -> Callable[..., Any]:
    """Return the graph of a function, with ``joint`` that of its results and gradients from inputs and
    tangents.
    """
    from torch._functorch.aot_autograd import aot_export_joint_simple

    return aot_export_joint_simple(function, tuple(inputs), trace_joint=joint)


def graph_of(function: Callable[..., Any], *inputs: Any, sizes: str = "real", closures: bool = False) -> Any:
    """Return the graph module of the operators that a function calls on inputs.

    ``sizes`` is ``real``, ``fake`` (traced without values) or ``symbolic`` (without values, and with open
    sizes). ``closures`` lets a function traced without values use tensors that are not among its inputs.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    mode: Any = sizes
    return make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=closures)(*inputs)


def under_a_mode() -> bool:
    """Return whether a Python mode sees the operators that run: forward derivatives of lists crash then."""
    return torch._C._len_torch_dispatch_stack() > 0


def draws(graph: Any) -> bool:
    """Return whether a graph holds an operator that draws random numbers."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in nodes)


def writing_operators(graph: Any) -> list[str]:
    """List the operators in a graph, or in the graphs within, that write to an argument of theirs."""
    modules = (module for module in graph.modules() if isinstance(module, torch.fx.GraphModule))
    targets = (node.target for module in modules for node in module.graph.nodes)
    schemas = (getattr(target, "_schema", None) for target in targets)
    return [schema.name for schema in schemas if schema is not None and schema.is_mutable]


def open_graph_of(function: Callable[..., Any], *inputs: Any) -> Any:
    """Return the graph of a function with open sizes; tensors that it holds stay what they are."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*inputs)


def shares_memory(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have one storage."""
    return bool(torch._C._is_alias_of(tensor, other))  # type: ignore[attr-defined]


def collected_events(profile: Any) -> tuple[list[Any], int]:
    """Return the events that the collector of a profile has, and the time of its start in nanoseconds."""
    results = profile.profiler.kineto_results
    return list(results.events()), int(results.trace_start_ns())


def is_of_host(event: Any) -> bool:
    """Return whether an event of the collector is the host's."""
    return str(event.device_type()) == "DeviceType.CPU"


def is_of_torch(event: Any) -> bool:
    """Return whether an event of the host is an operator or a range of torch's.

    Calls of a device's runtime have numbers of their own, which may be those of operators: they are linked to
    one, or, in releases that say so, of another type.
    """
    kind = getattr(event, "activity_type", None)
    if kind is not None and str(kind()) not in ("cpu_op", "user_annotation", "python_function"):
        return False
    return int(event.linked_correlation_id()) == 0
