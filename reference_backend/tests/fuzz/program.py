"""Define random programs, make them from a seed, and run them on a device.

A program is a list of steps for each of its threads. A step has a kind and some numbers. A number selects an
operand *modulo* the number of available tensors. A program therefore stays valid if steps are removed. Each
thread writes only its own tensors, so the order of threads does not change the result. The CPU, which runs
the threads one after the other, gives the reference values.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch

#: Shapes of new tensors. Operators on small tensors run inline; operators on large tensors are queued.
SHAPES = ((4, 6), (24,), (2, 3, 4), (130, 70), (1500, 1500))
MOST_TENSORS = 8


@dataclass(frozen=True)
class Step:
    """A step: the name of a method of `ThreadState`, and numbers that select its operands."""

    kind: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """The steps of each thread, and the seed of the program."""

    seed: int
    threads: tuple[tuple[Step, ...], ...]

    def text(self) -> str:
        """Return the program as text, one line per step."""
        lines = [f"seed {self.seed}"]
        for number, steps in enumerate(self.threads):
            lines += [f"thread {number}"] if len(self.threads) > 1 else []
            lines += [f"  {step.kind}{step.numbers}" for step in steps]
        return "\n".join(lines)


def make_program(seed: int) -> Program:
    """Return the random program of a seed: 1 to 3 threads of 5 to 40 steps."""
    rng = random.Random(seed)
    kinds = rng.sample(
        list(WEIGHTS), k=rng.randint(6, len(WEIGHTS))
    )  # fewer kinds of steps give longer sequences of each kind
    kinds = [kind for kind in WEIGHTS if kind in {*kinds, "create_tensor", "compute_binary"}]
    weights = [WEIGHTS[kind] for kind in kinds]
    threads = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        chosen = rng.choices(kinds, weights, k=rng.randint(5, 40))
        threads.append(tuple(Step(kind, tuple(rng.randrange(1000) for _ in range(4))) for kind in chosen))
    return Program(seed, tuple(threads))


def run_program(program: Program, device: str) -> list[list[torch.Tensor]]:
    """Run the program.

    Args:
        program: the program.
        device: "cpu" (threads run one after the other) or "hpu" (they run at once).

    Returns:
        For each thread, CPU copies of the values that its steps read, followed by its final tensors.

    Raises:
        Exception: the first error of a thread.
    """
    shared = [_random_tensor(1000 + i, shape).to(device) for i, shape in enumerate(SHAPES)]
    thread_states = [ThreadState(device, shared, alone=len(program.threads) == 1) for _ in program.threads]
    errors: list[BaseException] = []

    def run_thread(thread_state: ThreadState, steps: tuple[Step, ...]) -> None:
        try:
            thread_state.run_steps(steps)
        except BaseException as error:
            errors.append(error)

    if device == "cpu" or len(thread_states) == 1:
        for thread_state, steps in zip(thread_states, program.threads, strict=True):
            thread_state.run_steps(steps)
    else:
        threads = [
            threading.Thread(target=run_thread, args=pair)
            for pair in zip(thread_states, program.threads, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [thread_state.results() for thread_state in thread_states]


def _random_tensor(seed: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 0.5


def _chain_of_tanh(value: torch.Tensor) -> torch.Tensor:
    for factor in (0.5, 0.25, 0.125):
        value = torch.tanh(value) * factor + 0.1
    return value


def _compute_with_views(value: torch.Tensor) -> torch.Tensor:
    flat = value.reshape(-1)
    return (flat * 0.5 + flat.flip(0)).reshape(value.shape) - value


def _change_in_place(value: torch.Tensor) -> torch.Tensor:
    return value.mul_(0.5).sub_(0.01)


FUNCTIONS = (_chain_of_tanh, _compute_with_views, _change_in_place)
_compiled: dict[tuple[int, str], Callable[[torch.Tensor], torch.Tensor]] = {}
_compiling = threading.Lock()


def compiled_function(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return one of `FUNCTIONS`, compiled as an interpreted or fused recipe, once per process."""
    key = (number % len(FUNCTIONS), ("interpreted", "fused")[number // len(FUNCTIONS) % 2])
    with _compiling:
        if key not in _compiled:
            options = {"executable": key[1]}
            function = FUNCTIONS[key[0]]
            _compiled[key] = torch.compile(function, backend="hpu_backend", options=options, dynamic=False)
        return _compiled[key]


class ThreadState:
    """The tensors of one thread, with one method for each kind of step."""

    def __init__(self, device: str, shared: list[torch.Tensor], alone: bool) -> None:
        self.device = device
        self.alone = alone
        self.shared = shared
        self.tensors: list[torch.Tensor] = []
        self.read: list[torch.Tensor] = []
        #: Pinned tensors that the device writes. `results` reads them at the end.
        self.hosts: list[torch.Tensor] = []
        self.on_device = device != "cpu"
        if self.on_device:
            from habana_frameworks.torch import _C, hpu

            self.core, self.hpu = _C, hpu
            self.streams = [hpu.default_stream(), *(hpu.Stream() for _ in range(3))]

    def run_steps(self, steps: tuple[Step, ...]) -> None:
        """Run the steps. Steps that use streams or delays do nothing on the CPU."""
        for step in steps:
            if not self.tensors:
                self.add_tensor(_random_tensor(7, SHAPES[0]).to(self.device))
            getattr(self, step.kind)(*step.numbers)
        if self.on_device:
            self.hpu.synchronize()
            self.hpu.set_stream(self.streams[0])

    def results(self) -> list[torch.Tensor]:
        """Return CPU copies of the values that steps read, and of the current values of all tensors."""
        return [*self.read, *(host.clone() for host in self.hosts), *(value.cpu() for value in self.tensors)]

    def add_tensor(self, value: torch.Tensor) -> None:
        """Add a tensor to the thread's own tensors. Beyond ``MOST_TENSORS``, drop the oldest."""
        self.tensors.append(value)
        if len(self.tensors) > MOST_TENSORS:
            del self.tensors[0]

    def select_own_tensor(self, number: int) -> torch.Tensor:
        """Return one of the thread's own tensors."""
        return self.tensors[number % len(self.tensors)]

    def select_tensor_of_same_shape(self, value: torch.Tensor, number: int) -> torch.Tensor:
        """Return a tensor with the shape of `value`: the thread's own, a shared tensor, or `value` itself."""
        fitting = [candidate for candidate in (*self.tensors, *self.shared) if candidate.shape == value.shape]
        return fitting[number % len(fitting)] if fitting else value

    # Values

    def create_tensor(self, shape: int, number: int, way: int, _: int) -> None:
        """Copy a tensor from the host, or create one on the device."""
        size = SHAPES[shape % len(SHAPES)]
        if way % 3 == 0:
            self.add_tensor(torch.full(size, number / 1000, device=self.device))
        elif way % 3 == 1:
            self.add_tensor(torch.empty(size, device=self.device).copy_(_random_tensor(number, size)))
        else:
            self.add_tensor(_random_tensor(number, size).to(self.device))

    def compute_binary(self, first: int, second: int, kind: int, _: int) -> None:
        """Compute a new tensor from two tensors."""
        a = self.select_own_tensor(first)
        b = self.select_tensor_of_same_shape(a, second)
        operators = (torch.add, torch.sub, lambda x, y: x * y * 0.5, torch.maximum, lambda x, y: (x > y) * x)
        self.add_tensor(operators[kind % len(operators)](a, b))

    def compute_unary(self, first: int, kind: int, number: int, _: int) -> None:
        """Compute a new tensor from one tensor."""
        operators = (torch.tanh, torch.neg, lambda x: x * (number / 1000), torch.clone, lambda x: x + 0.25)
        self.add_tensor(operators[kind % len(operators)](self.select_own_tensor(first)))

    def write_in_place(self, first: int, second: int, kind: int, number: int) -> None:
        """Write into a tensor, and so into all its views."""
        a = self.select_own_tensor(first)
        b = self.select_tensor_of_same_shape(a, second)
        if kind % 5 == 0:
            a.mul_(0.5)
        elif kind % 5 == 1:
            a.add_(b.clone(), alpha=0.5)
        elif kind % 5 == 2:
            a.copy_(b.clone())
        elif kind % 5 == 3:
            a.fill_(number % 7 / 7)
        else:
            a.clamp_(-1, 1)

    def reduce_dimensions(self, first: int, kind: int, _: int, __: int) -> None:
        """Reduce a tensor to fewer dimensions."""
        a = self.select_own_tensor(first)
        self.add_tensor((a.amax(0, keepdim=True), a.mean(-1, keepdim=True), a.amin().reshape(1))[kind % 3])

    def multiply_by_transpose(self, first: int, _: int, __: int, ___: int) -> None:
        """Multiply a matrix by its transpose."""
        a = self.select_own_tensor(first)
        a = a.reshape(a.shape[0], -1) if a.dim() > 1 else a.reshape(1, -1)
        if a.shape[0] <= 200:
            self.add_tensor(a @ a.t() / a.shape[1])

    # Views and memory

    def create_view(self, first: int, kind: int, _: int, __: int) -> None:
        """Add a view of a tensor."""
        a = self.select_own_tensor(first)
        if a.dim() == 0 or a.shape[0] < 2:
            self.add_tensor(a.unsqueeze(0))
        else:
            self.add_tensor((a[1:], a[::2], a.transpose(0, -1), a.unsqueeze(0), a[0])[kind % 5])

    def free_tensor(self, first: int, _: int, __: int, ___: int) -> None:
        """Drop a tensor. Its memory is freed if no view uses it."""
        del self.tensors[first % len(self.tensors)]

    def enlarge_storage(self, first: int, _: int, __: int, ___: int) -> None:
        """Enlarge the storage of a tensor. The contents of the storage stay the same."""
        storage = self.select_own_tensor(first).untyped_storage()
        if storage.nbytes() < 1 << 20:
            storage.resize_(2 * storage.nbytes() + 64)

    def allocate_beyond_limit(self, share: int, _: int, __: int, ___: int) -> None:
        """Request more memory than is available. The request fails and changes nothing."""
        if self.on_device:
            limit = torch.hpu.memory_stats()["Limit"]
            try:
                torch.empty(limit + share, dtype=torch.uint8, device=self.device)
            except torch.OutOfMemoryError:
                return
            raise AssertionError("an allocation above the memory limit did not fail")

    def allocate_most_memory(self, share: int, _: int, __: int, ___: int) -> None:
        """Allocate most of the memory briefly, so that freed memory must be reused."""
        if self.on_device and self.alone:
            stats = torch.hpu.memory_stats()
            free = stats["Limit"] - stats["InUse"]
            # The memory is allocated in pieces, because live tensors may split the free range.
            pieces = [
                torch.empty(free // 32, dtype=torch.uint8, device=self.device) for _ in range(share % 4 * 6)
            ]
            del pieces

    # The host

    def read_on_host(self, first: int, kind: int, _: int, __: int) -> None:
        """Read values on the host."""
        a = self.select_own_tensor(first)
        if kind % 3 == 0:
            self.read.append(a.cpu().clone())  # `cpu` returns a CPU tensor itself, not a copy
        elif kind % 3 == 1:
            self.read.append(torch.tensor(a.reshape(-1)[0].item()))
        else:
            self.read.append((a > 0).nonzero().cpu())

    def copy_from_pinned(self, first: int, number: int, _: int, __: int) -> None:
        """Copy from pinned memory, after the queued work."""
        a = self.select_own_tensor(first)
        host = _random_tensor(number, tuple(a.shape))
        a.copy_(host.pin_memory() if self.on_device else host, non_blocking=True)

    def copy_to_pinned(self, first: int, _: int, __: int, ___: int) -> None:
        """Copy to pinned memory, which is read at the end."""
        a = self.select_own_tensor(first)
        host = torch.empty(a.shape)
        self.hosts.append(host.pin_memory() if self.on_device else host)
        self.hosts[-1].copy_(a, non_blocking=True)

    # Streams

    def switch_stream(self, number: int, _: int, __: int, ___: int) -> None:
        """Continue on another stream. The memory that both streams access orders their work."""
        if self.on_device:
            self.hpu.set_stream(self.streams[number % len(self.streams)])

    def delay_stream(self, number: int, _: int, __: int, ___: int) -> None:
        """Block the stream for up to 3 ms."""
        if self.on_device:
            self.core.enqueue_delay(number % 4 / 1000)

    def wait_for_stream(self, first: int, kind: int, _: int, __: int) -> None:
        """Make the current stream or the host wait for another stream."""
        if self.on_device:
            waited_stream = self.streams[first % len(self.streams)]
            if kind % 4 == 0:
                self.hpu.current_stream().wait_stream(waited_stream)
            elif kind % 4 == 1:
                waited_stream.record_event().synchronize()
            elif kind % 4 == 2:
                waited_stream.synchronize()
            else:
                self.hpu.synchronize()

    # Graphs

    def capture_and_replay(self, first: int, second: int, times: int, way: int) -> None:
        """Capture work on a tensor in a graph, and replay the graph. On the CPU, repeat the work."""
        a = self.select_own_tensor(first)
        b = self.select_tensor_of_same_shape(a, second)
        static_results = []

        def compute_and_write() -> None:
            static_results[:] = [torch.tanh(a) + b]
            a.mul_(0.5).add_(static_results[0], alpha=0.25)

        if not self.on_device:
            for _ in range(times % 3 + 1):
                compute_and_write()
        else:
            graph = self.hpu.HPUGraph()
            stream = self.streams[way % len(self.streams)]
            with self.hpu.stream(self.hpu.Stream()):
                self.hpu.current_stream().wait_stream(stream)
                graph.capture_begin()
                compute_and_write()
                graph.capture_end()
            for _ in range(times % 3):
                graph.replay(asynchronous=way % 2 == 0)
        self.add_tensor(static_results[0])

    def call_compiled(self, first: int, number: int, _: int, __: int) -> None:
        """Call a compiled function."""
        a = self.select_own_tensor(first)
        if tuple(a.shape) not in SHAPES or not a.is_contiguous():
            return  # each shape and layout would be compiled separately
        function = compiled_function(number) if self.on_device else FUNCTIONS[number % len(FUNCTIONS)]
        with torch.no_grad():
            result = function(a)
        if result is not a:
            self.add_tensor(result)

    def compute_gradient(self, first: int, _: int, __: int, ___: int) -> None:
        """Compute a gradient. The backward pass runs on a thread of autograd."""
        weight = self.select_own_tensor(first).detach().clone().requires_grad_()
        (torch.tanh(weight) * 0.5).sum().backward()
        assert weight.grad is not None
        self.add_tensor(weight.grad)


#: Kinds of steps, with their relative frequencies in random programs. The order determines the program of a
#: seed.
WEIGHTS = {
    "compute_gradient": 2,
    "compute_binary": 8,
    "call_compiled": 1,
    "delay_stream": 3,
    "allocate_most_memory": 1,
    "free_tensor": 4,
    "enlarge_storage": 2,
    "write_in_place": 8,
    "read_on_host": 3,
    "create_tensor": 6,
    "copy_from_pinned": 3,
    "copy_to_pinned": 3,
    "multiply_by_transpose": 1,
    "reduce_dimensions": 2,
    "capture_and_replay": 2,
    "switch_stream": 6,
    "allocate_beyond_limit": 1,
    "compute_unary": 6,
    "create_view": 4,
    "wait_for_stream": 2,
}
