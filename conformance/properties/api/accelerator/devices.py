"""Behaviours of ``torch.accelerator``: the current device, context managers that set the device index,
streams as contexts, and events.
"""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _accelerator_or_model


@behaviour("accelerator", level="bringup", must_detect=())
def the_accelerator(lab: Lab) -> None:
    """The process has one accelerator of the device's type, and the current index is below the number of
    devices.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    lab.holds("an accelerator is available", runtime.is_available())
    lab.holds("the accelerator has the device's type", runtime.current_accelerator().type == lab.device.type)
    lab.holds("there is a device", runtime.device_count() >= 1)
    lab.holds(
        "the current index is below the number of devices",
        0 <= runtime.current_index() < runtime.device_count(),
    )
    before = runtime.current_index()
    for index in (0, runtime.device_count() - 1, before):
        runtime.set_current_index(index)  # a process that owns one device may ignore the call
    lab.holds(
        "the first and the last index are accepted", 0 <= runtime.current_index() < runtime.device_count()
    )
    tensor = lab.integers(3)
    lab.holds(
        "new tensors are on the current device",
        tensor.device.type == "cpu" or tensor.device.index == runtime.current_index(),
    )
    runtime.synchronize()
    lab.same("a sum after synchronize", tensor + 1)
    if lab.device.type != "cpu":
        module = torch.get_device_module(lab.device)
        lab.holds(
            "the device's module agrees",
            module.is_available() and module.device_count() == runtime.device_count(),
        )
        with lab.consistent("The module and torch.accelerator must name the same current device"):
            lab.holds(
                "the module returns the current device", module.current_device() == runtime.current_index()
            )
    else:
        lab.holds("the device's module agrees", True)
        lab.holds("the module returns the current device", True)


@behaviour(
    "accelerator",
    level="core",
    must_detect=(),
    page="generated/torch.accelerator.device_index.html",
    ground="The page states all but the refusal; accelerator/device.html makes backends check indices",
)
def guards_of_the_device(lab: Lab) -> None:
    """The context manager ``device_index`` sets the current device and restores the previous device on exit.
    This also holds for nested contexts, for index None and after an exception. An index that does not exist
    is refused.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    # Only the current device is used, because ``device_count`` may include devices that this process cannot
    # use.
    before = last = runtime.current_index()
    with runtime.index_guard(last):
        lab.holds("the context sets the requested device", runtime.current_index() == last)
        with runtime.index_guard(before):
            lab.holds("a nested context sets the requested device", runtime.current_index() == before)
        lab.holds("the inner context restores the device", runtime.current_index() == last)
        with runtime.index_guard(None):
            lab.holds("the index None leaves the device unchanged", runtime.current_index() == last)
    lab.holds("the outer context restores the device", runtime.current_index() == before)
    try:
        with runtime.index_guard(last):
            raise KeyError("on purpose")
    except KeyError:
        lab.holds("the context restores the device after an error", runtime.current_index() == before)
    runtime.set_current_index(last)
    lab.holds("set_device_index accepts an index", runtime.current_index() == last)
    runtime.set_current_index(torch.device(lab.device.type, before) if lab.device.type != "cpu" else before)
    lab.holds("set_device_index accepts a device", runtime.current_index() == before)
    lab.raises(
        "an index that does not exist",
        lambda: runtime.set_current_index(runtime.device_count() + 7),
        RuntimeError,
        ValueError,
        AssertionError,
    )
    with lab.consistent("A failed call must leave the current device as it was"):
        lab.holds("a refused index leaves the current device unchanged", runtime.current_index() == before)
    runtime.synchronize(runtime.current_index()) if lab.device.type != "cpu" else runtime.synchronize()
    if lab.device.type != "cpu":
        with lab.consistent("The module's guard and torch.accelerator must name the same device"):
            # A device module without a device guard passes, because no page requires a guard.
            guard = getattr(torch.get_device_module(lab.device), "device", runtime.index_guard)
            with guard(last):
                lab.holds("the module's guard sets the current device", runtime.current_index() == last)
        with lab.device:
            lab.holds(
                "a device as a context sets the default device", torch.empty(1).device.type == lab.device.type
            )
    else:
        lab.holds("the module's guard sets the current device", True)
        lab.holds("a device as a context sets the default device", True)
    lab.same("a product after the guards", lab.integers(3) * 2)


@behaviour(
    "accelerator",
    level="core",
    capabilities=("streams", "events"),
    must_detect=(),
    page="generated/torch.Stream.html",
)
def streams_as_contexts(lab: Lab) -> None:
    """A stream is the current stream within its context, also if contexts are nested or entered twice. The
    work of a stream is visible to other streams that wait for this stream.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    first, second = runtime.stream(), runtime.stream()
    outer = runtime.current_stream()
    lab.holds("new streams are on the device", first.device.type == lab.device.type)
    with lab.parity("No page says that two new streams are different"):
        lab.holds("two new streams are different", first != second)
    x = lab.integers(64)
    with first:
        lab.holds("a stream's context sets the current stream", runtime.current_stream() == first)
        with second:
            lab.holds("nested", runtime.current_stream() == second)
            with first:
                lab.holds("entered again", runtime.current_stream() == first)
            lab.holds("back in the second", runtime.current_stream() == second)
        lab.holds("back in the first", runtime.current_stream() == first)
    lab.holds("back outside", runtime.current_stream() == outer)
    try:
        with first:
            raise KeyError("on purpose")
    except KeyError:
        lab.holds("the context restores the stream after an error", runtime.current_stream() == outer)
    first.wait_stream(outer)
    with first:
        y = x * 2
        event = first.record_event()
    outer.wait_event(event)
    lab.same("work of a stream, read by the outer stream", y + 1)
    event.synchronize()
    first.synchronize()
    lab.holds("work is finished after synchronize", event.query() and first.query())
    second_event = runtime.event()
    second_event.record(outer)
    second_event.synchronize()
    lab.holds("a recorded event is complete after synchronize", second_event.query())
    second.wait_stream(first)
    second.synchronize()
    runtime.synchronize()
    lab.same("a sum after all synchronizations", x + y)


@behaviour(
    "accelerator",
    level="core",
    capabilities=("generator",),
    must_detect=(),
    page="generated/torch.accelerator.random.get_rng_state.html",
)
def random_states_of_the_accelerator(lab: Lab) -> None:
    """``torch.accelerator.random`` returns the seed and the state of the default generator of each device.
    The state is a tensor of bytes on the host, changes with each draw, and is restored by setting the seed
    again.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    functions = runtime.random_functions()
    torch.manual_seed(11)
    lab.same("initial seed", functions.initial_seed())
    state = functions.get_rng_state()
    lab.holds("bytes on the host", state.dtype == torch.uint8 and state.device.type == "cpu")
    torch.rand(4, device=lab.device)
    lab.holds("a draw changes the state", not torch.equal(functions.get_rng_state(), state))
    states = functions.get_rng_state_all()
    lab.holds("one state for each device", len(states) == runtime.device_count())
    current = states[runtime.current_index()]
    lab.holds("the current device's state is listed", torch.equal(current, functions.get_rng_state()))
    torch.manual_seed(11)
    lab.holds("the seed restores the state", torch.equal(functions.get_rng_state(), state))
    torch.manual_seed(12)
    lab.same("another seed", functions.initial_seed())


@behaviour(
    "accelerator",
    capabilities=("pinned_memory", "non_blocking"),
    must_detect=("value",),
    page="https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ground="The tutorial says that the host may read an asynchronous copy after a synchronization",
)
def pinned_copies(lab: Lab) -> None:
    """A non-blocking copy to the host is in pinned memory. After synchronization, the copy has the correct
    values.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    x = lab.integers(1000)
    host = x.to("cpu", non_blocking=True)
    runtime.synchronize()
    lab.same("copied", host + 0, host=True)
    expected = lab.device.type != "cpu"
    with lab.parity("No page says that an asynchronous copy to the host is in pinned memory"):
        lab.holds("pinned", host.is_pinned() or not expected)
    blocking_copy = x.to("cpu")
    with lab.parity("No page says that a blocking copy to the host is in pageable memory"):
        lab.holds("a blocking copy is in pageable memory", not blocking_copy.is_pinned())
    back = host.to(lab.device, non_blocking=True)
    lab.same("and back", back * 2)
