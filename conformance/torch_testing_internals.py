"""Access to ``torch.testing._internal`` and other private modules of torch.

These modules change with each release, so no other module of this package imports them. If a release does not
have a feature, the function for the feature returns an empty value or ``None`` and does not raise. A release
older than :data:`OLDEST` is rejected.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.model import seeds
from conformance.process_control.garbage_collector import disable_garbage_collector

#: The oldest supported release, as (major, minor).
OLDEST = (2, 6)


class UnsupportedTorch(RuntimeError):
    """Raised if the suite cannot read the operator database of the installed torch."""


def current_accelerator() -> torch.device | None:
    """Return the accelerator of this process, or None if the process has none.

    torch 2.6 raises an error instead of returning None; the error is caught here.
    """
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
def _hide_command_line() -> Iterator[None]:
    """Hide the arguments of this process: older releases of torch parse ``sys.argv`` when their test modules
    are imported.
    """
    saved = sys.argv
    sys.argv = saved[:1]
    try:
        yield
    finally:
        sys.argv = saved


@functools.lru_cache(maxsize=1)
def op_db() -> Sequence[Any]:
    """Return all OpInfos of the installed release, in the order of its database."""
    _require_version()
    # During this import the garbage collector would traverse the growing heap repeatedly and free nothing.
    with disable_garbage_collector(), _hide_command_line(), preserved_rng():
        from torch.testing._internal.common_methods_invocations import op_db as infos
    _allow_missing_generators()
    disable_guard_timing()
    return tuple(infos)


def _allow_missing_generators() -> None:
    """Make OpInfos that freeze the random state usable if the accelerator's module has no random state.

    The wrapper of these OpInfos saves and restores the random state of the accelerator, even if the call runs
    on the CPU. This function replaces the wrapper's context manager by a context manager that omits the
    accelerator, so that a device without a generator can run these OpInfos.
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
    """Return the OpInfos of the installed release for the ``torch._foreach_*`` operators."""
    _require_version()
    with _hide_command_line(), preserved_rng():
        from torch.testing._internal import common_methods_invocations as infos
    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    return tuple(op for kind in kinds for op in getattr(infos, f"foreach_{kind}_op_db", ()))


@functools.lru_cache(maxsize=1)
def module_db() -> Sequence[Any]:
    """Return all ModuleInfos of the installed release, in the order of its database."""
    _require_version()
    with _hide_command_line(), preserved_rng():
        from torch.testing._internal.common_modules import module_db as infos
    return tuple(infos)


@functools.lru_cache(maxsize=1)
def optim_db() -> Sequence[Any]:
    """Return all OptimizerInfos of the installed release, in the order of its database."""
    _require_version()
    with _hide_command_line(), preserved_rng():
        from torch.testing._internal.common_optimizers import optim_db as infos
    return tuple(infos)


def is_elementwise_unary(info: Any) -> bool:
    """Return whether an OpInfo describes an elementwise operator of one tensor."""
    return type(info).__name__ == "UnaryUfuncInfo"


def is_elementwise_binary(info: Any) -> bool:
    """Return whether an OpInfo describes an elementwise operator of two tensors."""
    return type(info).__name__ == "BinaryUfuncInfo"


def domain_bounds(info: Any) -> tuple[float | None, float | None]:
    """Return the lower and the upper bound of the domain of an elementwise unary operator. A bound is None if
    the domain is not bounded on that side.
    """
    low, high = getattr(info, "domain", None) or (None, None)
    return low, high


def is_reduction(info: Any) -> bool:
    """Return whether an OpInfo describes a reduction."""
    return type(info).__name__ == "ReductionOpInfo"


def is_device_specific(info: Any) -> bool:
    """Return whether an OpInfo has no reference values, because it cannot run on the CPU.

    Such an OpInfo declares no dtype for the CPU, or is a ``jiterator`` entry. ``jiterator`` entries compile
    CUDA source at run time. They declare CPU dtypes although they have no CPU kernel.
    """
    return not info.dtypes or info.name.startswith("jiterator_")


def seed_for(*names: str) -> int:
    """Return a 32-bit seed that depends only on the names and on the seed of the run."""
    return seeds.seed_for("/".join(names))


@contextlib.contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the state of the host's three generators (torch CPU, Python, NumPy) on exit from this
    context.
    """
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
    """Seed the host's generators on entry to this context, and restore their states on exit.

    ``torch.manual_seed`` would also seed the generators of the device. This context does not change them.
    """
    import numpy

    with preserved_rng():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        yield


@contextlib.contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator on entry to this context, and restore its state on exit."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Silence warnings inside this context, because the operator database warns about its own inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sample_inputs(info: Any, dtype: torch.dtype, *, requires_grad: bool, seed: int) -> list[Any]:
    """Return the SampleInputs of an OpInfo, made on the CPU. Their random values depend only on ``seed``.

    This function calls ``sample_inputs_func`` directly. The public method ``sample_inputs`` would reseed the
    generators of the host and of all devices before each sample, with a seed from the name of a test on the
    stack.
    """
    with seeded(seed), silence_warnings():
        return list(info.sample_inputs_func(info, "cpu", dtype, requires_grad))


def reference_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> list[Any]:
    """Return the reference SampleInputs (extremal, large, broadcast, …) of an OpInfo, made on the CPU."""
    make = info.reference_inputs_func or info.sample_inputs_func
    with seeded(seed), silence_warnings():
        return list(make(info, "cpu", dtype, False))


def sparse_sample_inputs(
    info: Any, layout: torch.layout, dtype: torch.dtype, *, requires_grad: bool = False, seed: int, limit: int
) -> list[Any]:
    """Return at most ``limit`` SampleInputs of an OpInfo in a sparse layout, made on the CPU.

    The list is empty if the OpInfo has no such samples. Samples that the database expects torch to reject are
    omitted.
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
        with seeded(seed), silence_warnings():
            samples = info.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=requires_grad)
            candidates = list(itertools.islice(samples, limit))
    except (SkipTest, NotImplementedError):
        return []
    validate: Callable[..., Any] = validate_sample_input_sparse
    return [sample for sample in candidates if validate(info, sample, check_validate=False) is sample]


def foreach_inputs(info: Any, dtype: torch.dtype, *, seed: int, tensors: int = 3) -> list[Any]:
    """Return the SampleInputs of a foreach OpInfo. Their lists have ``tensors`` differentiable CPU
    tensors.
    """
    with seeded(seed), silence_warnings():
        make = info.sample_inputs
        return list(make("cpu", dtype, requires_grad=True, num_input_tensors=[tensors]))


def first_sample(info: Any, dtype: torch.dtype, *, seed: int, requires_grad: bool = False) -> Any | None:
    """Return the first SampleInput of an OpInfo in a dtype, or None if it has no samples in the dtype."""
    with seeded(seed), silence_warnings():
        for sample in info.sample_inputs_func(info, "cpu", dtype, requires_grad):
            return sample
    return None


def error_inputs(info: Any, device: str, *, seed: int) -> list[Any]:
    """Return the ErrorInputs of an OpInfo, made on ``device``. The list is empty if the OpInfo has none."""
    if getattr(info, "error_inputs_func", None) is None:
        return []
    with seeded(seed), silence_warnings():
        return list(info.error_inputs_func(info, device))


def forward_dtypes(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes that an OpInfo declares for the CPU."""
    return frozenset(info.dtypes)


def backward_dtypes(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes in which an OpInfo declares a backward pass on the CPU."""
    return frozenset(info.supported_backward_dtypes("cpu")) if info.supports_autograd else frozenset()


def dtypes_of_any_device(info: Any) -> frozenset[torch.dtype]:
    """Return the dtypes that an OpInfo declares for any device of torch, for a forward or backward pass."""
    devices = ("cpu", "cuda", "xpu", "mps")
    dtypes: set[torch.dtype] = set()
    for device in devices:
        dtypes |= set(info.supported_dtypes(device))
        if info.supports_autograd:
            dtypes |= set(info.supported_backward_dtypes(device))
    return frozenset(dtypes)


def composite_checks() -> Any | None:
    """Return torch's module of composite-compliance checks, or None if the installed release has none."""
    try:
        with _hide_command_line(), preserved_rng():
            from torch.testing._internal import composite_compliance
    except ImportError:  # pragma: no cover - depends on the release
        return None
    return composite_compliance


def gradcheck_wrapper(info: Any) -> Callable[..., Any]:
    """Return the wrapper of an OpInfo that maps perturbed inputs back to the operator's domain (hermitian,
    triangular, …).
    """
    wrapper: Callable[..., Any] | None = getattr(info, "gradcheck_wrapper", None)
    return wrapper if wrapper is not None else (lambda op, *args, **kwargs: op(*args, **kwargs))


def output_process_function(sample: Any) -> Callable[[Any], Any] | None:
    """Return the function that a SampleInput applies to its output before differentiation, or None."""
    fn: Callable[[Any], Any] | None = getattr(sample, "output_process_fn_grad", None)
    return fn


def fake_tensor_mode() -> Any:
    """Return a new FakeTensorMode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def dynamic_output_errors() -> tuple[type[BaseException], ...]:
    """Return the exception types that FakeTensor raises if the shape or value of an output depends on
    data.
    """
    from torch._subclasses import fake_tensor

    names = ("DynamicOutputShapeException", "DataDependentOutputException", "UnsupportedOperatorException")
    return tuple(getattr(fake_tensor, name) for name in names if hasattr(fake_tensor, name))


@contextlib.contextmanager
def record_operator_names() -> Iterator[list[str]]:
    """Yield a list. On exit from this context, the names of all operators that ran inside it are in the list.

    Names look like ``aten::add``. Operators that other operators call are included.
    """
    # The newer profiler writes to stderr each time it is used, so the legacy profiler is used.
    from torch.autograd import profiler_legacy

    names: list[str] = []
    with profiler_legacy.profile() as profile:  # type: ignore[no-untyped-call]
        yield names
    names.extend(sorted({str(event.name) for event in profile.function_events}))


def capture_data_dependent_shapes(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function that traces operators with data-dependent shapes into its graph.

    With ``fullgraph``, torch 2.13 does this by default, and torch 2.6 needs a setting. Releases between
    2.6 and 2.13 were not tried.
    """
    import torch._dynamo.config as config

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13):
        return call

    def with_shapes(*args: Any, **kwargs: Any) -> Any:
        with config.patch(capture_dynamic_output_shape_ops=True):
            return call(*args, **kwargs)

    return with_shapes


def disable_guard_timing() -> None:
    """Disable Dynamo's measurement of guard latency.

    The measurement flushes the processor's caches and takes 8 % of the time of properties that compile.
    Dynamo only logs its result.
    """
    with contextlib.suppress(ImportError):
        from torch._dynamo import guards

        if hasattr(guards, "profile_guard_manager"):
            guards.profile_guard_manager = lambda *arguments: 0.0


def reset_dynamo() -> None:
    """Discard the compiled code and the counters of Dynamo in this process."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()


def graph_breaks() -> dict[str, int]:
    """Return the reasons for which Dynamo broke graphs since the last reset, each with its count."""
    from torch._dynamo.utils import counters

    return {str(reason): int(count) for reason, count in counters["graph_break"].items()}


def compile_backend(name: str) -> Callable[..., Any]:
    """Return the function of a ``torch.compile`` backend by name; raise LookupError if it does not exist."""
    from torch._dynamo.backends import registry

    try:
        backend: Callable[..., Any] = registry.lookup_backend(name)
    except Exception as error:
        raise LookupError(f"torch.compile has no backend {name!r}: {error}") from error
    return backend


def aot_eager_backend() -> Callable[..., Any]:
    """Return torch's own backend ``aot_eager``, even if a different backend is registered under this name."""
    from torch._dynamo.backends.debugging import aot_eager

    backend: Callable[..., Any] = aot_eager
    return backend


def module_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> list[Any]:
    """Return the ModuleInputs of a ModuleInfo, made on the CPU. Differentiable inputs require grad."""
    with seeded(seed), silence_warnings():
        return list(
            info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        )


def module_error_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> list[Any]:
    """Return the ErrorModuleInputs of a ModuleInfo, made on the CPU. The list is empty if it has none."""
    make = getattr(info, "module_error_inputs_func", None)
    if make is None:
        return []
    with seeded(seed), silence_warnings():
        return list(make(info, device="cpu", dtype=dtype, requires_grad=False, training=training))


def optimizer_inputs(info: Any, *, capturable: bool) -> list[Any]:
    """Return the OptimizerInputs of an OptimizerInfo. ``capturable`` adds inputs that need an accelerator."""
    with silence_warnings():
        return list(info.optim_inputs_func(device="cuda" if capturable else "cpu"))


def optimizer_error_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> list[Any]:
    """Return the ErrorOptimizerInputs of an OptimizerInfo, with parameters on the CPU. The list is empty if
    it has none.
    """
    make = getattr(info, "optim_error_inputs_func", None)
    if make is None:
        return []
    with seeded(seed), silence_warnings():
        return list(make("cpu", dtype))


@functools.cache
def dispatch_key(device: str) -> str:
    """Return the name of a device type's dispatch key, such as ``HPU``, or an empty text if it has none."""
    kind = torch.device(device).type
    if kind == "privateuseone" or kind == torch._C._get_privateuse1_backend_name():
        return "PrivateUse1"
    for candidate in (kind.upper(), kind.capitalize()):
        try:
            torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", candidate)
        except Exception:
            continue
        return candidate
    return ""


def has_kernel(name: str, key: str) -> bool:
    """Return whether a kernel is registered for an overload (``aten::add.Tensor``) at a dispatch key."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:  # an overload that only TorchScript has
        return False


def overloads(name: str) -> list[str]:
    """Return the names of the overloads of an aten operator; the default overload has an empty name."""
    packet = getattr(torch.ops.aten, name, None)
    return (
        []
        if packet is None
        else [overload_name.replace("default", "") for overload_name in packet.overloads()]
    )


@contextlib.contextmanager
def repeat_warnings() -> Iterator[None]:
    """Make torch issue each warning every time inside this context, instead of once per process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def control_flow_operator(name: str) -> Callable[..., Any]:
    """Return the operator ``while_loop``, ``scan``, ``associative_scan`` or ``map``, which have no public
    name in torch.
    """
    import torch._higher_order_ops as operators

    operator: Callable[..., Any] = getattr(operators, name)
    return operator


def trace_ahead_of_time(
    function: Callable[..., Any], *, dynamic: bool = False, min_cut: bool = False, in_graph: bool = False
) -> Callable[..., Any]:
    """Return a function that ahead-of-time autograd traces at its first call. The graphs are not compiled.

    With ``in_graph``, in-place writes to inputs are part of the graph, as in torch.compile. Otherwise these
    writes run after the graph.
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


def trace_module_ahead_of_time(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module that ahead-of-time autograd traces at its first call. The returned module has the
    parameters of ``module``.
    """
    from functorch.compile import aot_module, nop

    traced: torch.nn.Module = aot_module(module, nop, nop, keep_inference_input_mutations=True)
    return traced


def trace_module_as_compile_backend(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> Callable[..., Any]:
    """Trace a module ahead of time for real or fake inputs, as backends of torch.compile do, and return the
    traced function.
    """
    from functorch.compile import nop
    from torch._functorch.aot_autograd import aot_module_simplified

    graph: Any = module
    return aot_module_simplified(graph, tuple(inputs), nop)


def with_symbolic_sizes(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return a fake tensor with symbolic sizes for each input."""
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
    """Return the exported graph of a module, and the signature of the graph. The first inputs of the graph
    are the parameters and buffers.

    With ``before_dispatch``, composite operators are not decomposed. If ``loss`` is the index of an output,
    the gradients of this output with respect to the parameters are outputs too.
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
    """Return the exported graph of a function. With ``joint``, the graph also computes gradients, and takes
    inputs and tangents.
    """
    from torch._functorch.aot_autograd import aot_export_joint_simple

    return aot_export_joint_simple(function, tuple(inputs), trace_joint=joint)


def graph_of_function(
    function: Callable[..., Any], *inputs: Any, sizes: str = "real", closures: bool = False
) -> Any:
    """Return the graph module of the operators that a function calls on inputs.

    ``sizes`` is ``real``, ``fake`` (traced without values) or ``symbolic`` (traced without values and with
    dynamic shapes). If a function is traced without values, ``closures`` allows it to use tensors that are
    not inputs.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    mode: Any = sizes
    return make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=closures)(*inputs)


def is_dispatch_mode_active() -> bool:
    """Return whether a Python dispatch mode is active. Forward-mode AD of ``torch._foreach_*`` operators
    crashes while a mode is active.
    """
    return torch._C._len_torch_dispatch_stack() > 0


def draws_random_numbers(graph: Any) -> bool:
    """Return whether a graph contains an operator that draws random numbers."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in nodes)


def writing_operators(graph: Any) -> list[str]:
    """Return the operators in a graph, including nested graphs, that write to one of their arguments."""
    modules = (module for module in graph.modules() if isinstance(module, torch.fx.GraphModule))
    targets = (node.target for module in modules for node in module.graph.nodes)
    schemas = (getattr(target, "_schema", None) for target in targets)
    return [schema.name for schema in schemas if schema is not None and schema.is_mutable]


def graph_with_dynamic_shapes(function: Callable[..., Any], *inputs: Any) -> Any:
    """Return the graph of a function, traced with dynamic shapes. Tensors in closures are not traced."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*inputs)


def shares_memory(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same storage."""
    return bool(torch._C._is_alias_of(tensor, other))  # type: ignore[attr-defined]


def collected_events(profile: Any) -> tuple[list[Any], int]:
    """Return the events that the profiler's collector recorded, and the start time in nanoseconds."""
    results = profile.profiler.kineto_results
    return list(results.events()), int(results.trace_start_ns())


def is_host_event(event: Any) -> bool:
    """Return whether an event of the profiler's collector was recorded on the host."""
    return str(event.device_type()) == "DeviceType.CPU"


def is_torch_event(event: Any) -> bool:
    """Return whether a host event is an operator or a range of torch, and not a runtime call of a device.

    The ids of runtime calls may be equal to ids of operators. Runtime calls are therefore recognised by their
    link to an operator or, in newer releases, by their activity type.
    """
    kind = getattr(event, "activity_type", None)
    if kind is not None and str(kind()) not in ("cpu_op", "user_annotation", "python_function"):
        return False
    return int(event.linked_correlation_id()) == 0
