"""Behaviours of random generators: seeds, saved states, and the operators that use a generator."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def draw_numbers(lab: Lab, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return eight random numbers on the device, from ``generator`` or the device's default generator."""
    return torch.rand(8, device=lab.device, generator=generator)


@behaviour("random", level="training", must_detect=())
def seeds_repeat(lab: Lab) -> None:
    """After the same seed, every random operator draws the same numbers. After a different seed, it draws
    different numbers.
    """
    device = lab.device
    base = torch.zeros(64, device=device)
    calls = {
        "rand": lambda: torch.rand(64, device=device),
        "randn": lambda: torch.randn(64, device=device),
        "randint": lambda: torch.randint(0, 1000, (64,), device=device),
        "randperm": lambda: torch.randperm(64, device=device),
        "normal": lambda: torch.normal(base, 1.0),
        "normal_": lambda: base.clone().normal_(),
        "uniform_": lambda: base.clone().uniform_(),
        "random_": lambda: base.clone().random_(0, 1000),
        "bernoulli_": lambda: base.clone().bernoulli_(0.5),
        "exponential_": lambda: base.clone().exponential_(),
        "geometric_": lambda: base.clone().geometric_(0.1),
        "cauchy_": lambda: base.clone().cauchy_(),
        "log_normal_": lambda: base.clone().log_normal_(),
        "multinomial": lambda: torch.multinomial(torch.ones(64, device=device), 32),
        "poisson": lambda: torch.poisson(base + 10),
        "dropout": lambda: torch.nn.functional.dropout(base + 1),
        "rand_like": lambda: torch.rand_like(base),
        "randint_like": lambda: torch.randint_like(base, 1000),
        "alpha dropout": lambda: torch.nn.functional.alpha_dropout(base + 1, training=True),
    }
    for name, call in calls.items():
        torch.manual_seed(11)
        first, second = call(), call()
        torch.manual_seed(11)
        repeated = call()
        torch.manual_seed(12)
        third = call()
        lab.holds(f"{name} repeats after the same seed", torch.equal(first, repeated))
        lab.holds(f"the next draw of {name} differs", not torch.equal(first, second))
        lab.holds(f"{name} draws different numbers after a different seed", not torch.equal(first, third))
        lab.same(f"shape and dtype of {name}", [first.shape, first.dtype])


@behaviour(
    "random",
    level="training",
    capabilities=("generator",),
    must_detect=(),
    page="generated/torch.Generator.html",
)
def generator_objects(lab: Lab) -> None:
    """A generator of the device draws the same numbers after the same seed. Its state can be read and set. It
    does not change the device's default generator.
    """
    generator = torch.Generator(device=lab.device)
    lab.holds("the generator is on the device", generator.device.type == lab.device.type)
    with lab.parity("No page says that the returned generator is the same object"):
        lab.holds("manual_seed returns the generator", generator.manual_seed(5) is generator)
    lab.expect("its seed", generator.initial_seed(), 5)
    first = draw_numbers(lab, generator)
    state = generator.get_state()
    second, third = draw_numbers(lab, generator), draw_numbers(lab, generator)
    lab.same("a state", [state.dtype, state.device.type, state.dim()])
    generator.set_state(state)
    lab.holds("a restored state repeats the draw", torch.equal(second, draw_numbers(lab, generator)))
    lab.holds("a restored state repeats the following draw", torch.equal(third, draw_numbers(lab, generator)))
    generator.manual_seed(5)
    lab.holds("the same seed repeats the draw", torch.equal(first, draw_numbers(lab, generator)))
    equal = torch.Generator(device=lab.device).manual_seed(5)
    lab.holds(
        "another generator with the same seed draws the same numbers",
        torch.equal(first, draw_numbers(lab, equal)),
    )
    torch.manual_seed(3)
    from_own = draw_numbers(lab)
    torch.manual_seed(3)
    draw_numbers(lab, generator)
    lab.holds("draws do not change the default generator", torch.equal(from_own, draw_numbers(lab)))
    twin = torch.Generator(device=lab.device)
    twin.set_state(generator.get_state())
    lab.holds(
        "a generator with the state of another draws the same numbers",
        torch.equal(draw_numbers(lab, twin), draw_numbers(lab, generator)),
    )
    copied = generator.clone_state()
    lab.holds(
        "a cloned generator draws the same numbers",
        torch.equal(draw_numbers(lab, copied), draw_numbers(lab, generator)),
    )
    before, seed = generator.initial_seed(), generator.seed()
    lab.holds(
        "seed() returns the new initial seed", seed == generator.initial_seed() and isinstance(seed, int)
    )
    lab.holds("seed() sets a different seed", seed != before)
    wide = torch.Generator(device=lab.device).manual_seed(2**40 + 5)
    lab.expect("a seed of more than 32 bits", wide.initial_seed(), 2**40 + 5)
    generator.manual_seed(-1)
    negative = draw_numbers(lab, generator)
    lab.holds(
        "the same negative seed repeats the draw",
        torch.equal(negative, draw_numbers(lab, torch.Generator(device=lab.device).manual_seed(-1))),
    )
    saved_generator = torch.Generator().manual_seed(9)
    restored = pickle.loads(pickle.dumps(saved_generator))
    with lab.parity("No page says that a generator can be pickled"):
        lab.holds(
            "a pickled CPU generator draws the same numbers",
            torch.equal(torch.rand(3, generator=saved_generator), torch.rand(3, generator=restored)),
        )


@behaviour(
    "random",
    capabilities=("generator",),
    must_detect=("error",),
    page="generated/torch.Generator.html",
    basis="parity",
    ground="No page says that these arguments are errors",
)
def generator_refusals(lab: Lab) -> None:
    """Generators of another device, states of a wrong size and arguments of a wrong type raise errors."""
    generator = torch.Generator(device=lab.device)
    lab.raises("an unknown device", lambda: torch.Generator("nosuch"), RuntimeError)
    lab.raises("a seed that is not an integer", lambda: generator.manual_seed("a"), TypeError, RuntimeError)  # type: ignore[arg-type]
    lab.raises("a state that is not a tensor", lambda: generator.set_state([1, 2]), TypeError)  # type: ignore[arg-type]
    lab.raises("a state of floats", lambda: generator.set_state(torch.zeros(16)), RuntimeError, TypeError)
    lab.raises(
        "a state of one byte", lambda: generator.set_state(torch.zeros(1, dtype=torch.uint8)), RuntimeError
    )
    lab.raises(
        "a number in place of a generator",
        lambda: torch.rand(2, device=lab.device, generator=3),  # type: ignore[call-overload]
        TypeError,
    )
    if lab.device.type == "cpu":
        lab.holds("a generator of another device is refused", True)
        return
    try:
        torch.rand(2, device=lab.device, generator=torch.Generator())
        refused = False
    except RuntimeError:
        refused = True
    lab.holds("a generator of another device is refused", refused)


def _random_state_module(lab: Lab) -> Any:
    """Return the module with the random state functions: ``torch.<device>``, or torch for the CPU."""
    return torch if lab.device.type == "cpu" else torch.get_device_module(lab.device)


@behaviour(
    "random",
    level="training",
    must_detect=(),
    page="random.html",
    ground=(
        "The pages of torch.random and of torch.cuda describe these functions; a device module has "
        "equal functions"
    ),
)
def device_random_state(lab: Lab) -> None:
    """The state of the device's default generator can be saved, restored and forked. ``torch.manual_seed``
    seeds it.
    """
    module = _random_state_module(lab)
    torch.manual_seed(21)
    state = module.get_rng_state()
    first = draw_numbers(lab)
    later = module.get_rng_state()
    lab.holds("a draw changes the state", not torch.equal(state, later))
    lab.same("a state", [state.dtype, state.device.type])
    module.set_rng_state(state)
    lab.holds("a restored state repeats the draw", torch.equal(first, draw_numbers(lab)))
    copied = state.clone()
    draw_numbers(lab)
    lab.holds("later draws do not change a saved state", torch.equal(state, copied))
    lab.expect("the seed", module.initial_seed(), 21)
    with _restoring_random_states(lab):
        torch.manual_seed(1)
        inside = draw_numbers(lab)
    module.set_rng_state(later)
    with _restoring_random_states(lab):
        torch.manual_seed(1)
        lab.holds("the same seed in two forks gives the same numbers", torch.equal(inside, draw_numbers(lab)))
    outside = draw_numbers(lab)
    module.set_rng_state(later)
    lab.holds("a fork does not change the state", torch.equal(outside, draw_numbers(lab)))
    generator = torch.manual_seed(4)
    with lab.parity("No page says on which device the returned generator is"):
        lab.holds("torch.manual_seed returns the CPU generator", generator.device.type == "cpu")
    drawn = draw_numbers(lab)
    module.manual_seed(4) if lab.device.type != "cpu" else torch.manual_seed(4)
    with lab.consistent(
        "The seed set by torch and the same seed set by the device module must give the same numbers"
    ):
        lab.holds(
            "manual_seed of the device module gives the same numbers", torch.equal(drawn, draw_numbers(lab))
        )
    lab.holds("two calls of torch.seed return different seeds", torch.seed() != torch.seed())


def _restoring_random_states(lab: Lab) -> Any:
    """Return a context manager that restores the random states of the CPU and of the device at its end."""
    if lab.device.type == "cpu":
        return torch.random.fork_rng([])
    return torch.random.fork_rng([0], device_type=lab.device.type)


@behaviour("random", must_detect=())
def random_in_parts(lab: Lab) -> None:
    """Successive draws differ. After the same seed, a draw gives the same numbers, in any dtype and also into
    strided memory. A restored state reproduces a draw.
    """
    torch.manual_seed(2)
    draws = [torch.rand(4, device=lab.device) for _ in range(20)]
    lab.holds(
        "no two calls draw the same numbers",
        all(not torch.equal(a, b) for i, a in enumerate(draws) for b in draws[:i]),
    )
    names = [name for name in ("float64", "float16", "bfloat16") if lab.target.declares(name)]
    torch.manual_seed(2)
    halves = [torch.randn(10, device=lab.device, dtype=getattr(torch, name)) for name in names]
    torch.manual_seed(2)
    repeated = [torch.randn(10, device=lab.device, dtype=getattr(torch, name)) for name in names]
    lab.holds(
        "the same seed gives the same numbers in every dtype",
        all(torch.equal(a, b) for a, b in zip(halves, repeated, strict=True)),
    )
    strided = torch.zeros(6, 4, device=lab.device)
    torch.manual_seed(2)
    strided[::2].normal_()
    copied = copy.deepcopy(strided)
    torch.manual_seed(2)
    strided[::2].normal_()
    lab.holds("strided memory gets the same numbers after the same seed", torch.equal(strided, copied))
    lab.expect("memory outside of the strided tensor", strided[1::2], torch.zeros(3, 4))
    lab.expect("nothing", torch.rand(0, device=lab.device), torch.zeros(0))
    odd = torch.randn(3, device=lab.device)
    lab.holds("an odd number of normal numbers is finite", bool(odd.isfinite().all()))
    state = torch.get_rng_state()
    torch.set_rng_state(state)
    host_draw = torch.randn(1)
    torch.set_rng_state(state)
    lab.holds("a restored CPU state repeats the draw of one number", torch.equal(host_draw, torch.randn(1)))
