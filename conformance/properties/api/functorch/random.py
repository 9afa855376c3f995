"""Behaviours of random numbers inside ``vmap`` for each option of ``randomness``: "error", "same" and
"different".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

Draw = Callable[[torch.Tensor], torch.Tensor]

#: The number of elements of a batch, and how many random numbers each element draws. With so many numbers, no
#: two elements draw equal numbers by chance.
BATCH, SIZE = 4, 64


def check_randomness_options(lab: Lab, name: str, draw: Draw, *, uses_argument: bool = False) -> None:
    """Check a random draw inside ``vmap`` for each option of ``randomness``.

    If ``uses_argument`` is true, the draw depends on its argument. For ``randomness="same"``, the draw then
    receives an argument that is not mapped.
    """
    x = torch.ones(BATCH, SIZE, device=lab.device)
    lab.raises(f"{name}: error", lambda: vmap(draw, randomness="error")(x), RuntimeError, match="(?i)random")
    different = vmap(draw, randomness="different")(x)
    lab.same(f"{name}: shape and dtype", (list(different.shape), different.dtype))
    rows = {tuple(row.flatten().tolist()) for row in different}
    lab.holds(f"{name}: different gives each element different numbers", len(rows) == BATCH)
    sample = x[0].clone()
    same = vmap((lambda a: draw(sample)) if uses_argument else draw, randomness="same")(x)
    lab.holds(
        f"{name}: same gives all elements equal numbers", all(torch.equal(row, same[0]) for row in same)
    )
    lab.holds(f"{name}: same draws random numbers", len(set(same[0].flatten().tolist())) > 1)


@behaviour(
    "functorch",
    level="full",
    capabilities=("random",),
    must_detect=("error",),
    page="func.ux_limitations.html",
)
def batches_of_drawn_tensors(lab: Lab) -> None:
    """``rand``, ``randn``, ``randint``, ``randperm`` and similar calls inside ``vmap`` follow the
    ``randomness`` option.
    """
    device = lab.device
    draws: dict[str, Draw] = {
        "rand": lambda a: torch.rand(SIZE, device=device),
        "randn": lambda a: torch.randn(SIZE, device=device),
        "randint": lambda a: torch.randint(0, 1000, (SIZE,), device=device),
        "randperm": lambda a: torch.randperm(SIZE, device=device),
        "normal": lambda a: torch.normal(0.0, 1.0, (SIZE,), device=device),
        "rand_like": torch.rand_like,
        "randn_like": torch.randn_like,
        "randint_like": lambda a: torch.randint_like(a, 1000),
    }
    for name, draw in draws.items():
        check_randomness_options(lab, name, draw)


@behaviour(
    "functorch",
    level="full",
    capabilities=("random",),
    must_detect=("error",),
    page="func.ux_limitations.html",
)
def batches_of_draws_by_value(lab: Lab) -> None:
    """``bernoulli``, ``normal``, ``poisson``, ``multinomial`` and ``exponential`` draws whose parameters are
    the elements of a batch follow the ``randomness`` option, in place and out of place.
    """
    draws: dict[str, Draw] = {
        "bernoulli": lambda a: torch.bernoulli(a / 2),
        "bernoulli by a number": lambda a: torch.bernoulli(a, 0.5),
        "normal by means": lambda a: torch.normal(a, 1.0),
        "normal by deviations": lambda a: torch.normal(0.0, a),
        "normal by both": lambda a: torch.normal(a, a),
        "poisson": lambda a: torch.poisson(a * 50),
        "multinomial": lambda a: torch.multinomial(a, SIZE, replacement=True),
    }
    for name, draw in draws.items():
        check_randomness_options(lab, name, draw, uses_argument=True)
    for name in ("bernoulli_", "normal_", "uniform_", "exponential_", "cauchy_", "log_normal_"):

        def draw_in_place(a: torch.Tensor, name: str = name) -> torch.Tensor:
            return getattr(torch.zeros_like(a) + a * 0, name)()  # type: ignore[no-any-return]

        check_randomness_options(lab, name, draw_in_place, uses_argument=True)
    check_randomness_options(lab, "random_", lambda a: (a * 0).random_(1000), uses_argument=True)
    check_randomness_options(lab, "geometric_", lambda a: (a * 0).geometric_(0.1), uses_argument=True)

    whole = torch.zeros(SIZE, device=lab.device)
    x = torch.ones(BATCH, SIZE, device=lab.device)
    lab.raises(
        "different numbers into one tensor",
        lambda: vmap(lambda a: whole.normal_(), randomness="different")(x),
        RuntimeError,
    )


@behaviour(
    "functorch",
    level="full",
    capabilities=("random",),
    must_detect=("error",),
    page="func.ux_limitations.html",
)
def batches_of_dropout(lab: Lab) -> None:
    """Every kind of dropout inside ``vmap`` follows the ``randomness`` option. Feature dropout drops whole
    features. With ``training=False``, dropout draws nothing.
    """
    for name in ("dropout", "alpha_dropout"):
        check_randomness_options(
            lab,
            name,
            lambda a, f=getattr(F, name): f(a, 0.5, training=True),  # type: ignore[misc]
            uses_argument=True,
        )
    for name in ("dropout2d", "feature_alpha_dropout"):

        def feature_dropout(a: torch.Tensor, f: Any = getattr(F, name)) -> torch.Tensor:
            dropped: torch.Tensor = f(a.view(1, SIZE, 1, 1).expand(1, SIZE, 2, 2), 0.5, training=True)
            return dropped

        check_randomness_options(lab, name, feature_dropout, uses_argument=True)
        result = vmap(feature_dropout, randomness="different")(torch.ones(BATCH, SIZE, device=lab.device))
        lab.holds(
            f"{name}: a feature is kept or dropped as a whole",
            torch.equal(result[..., 0, 0], result[..., 1, 1]),
        )
    x = torch.ones(BATCH, SIZE, device=lab.device)
    result = vmap(lambda a: F.dropout(a, 0.5), randomness="different")(x)
    lab.same("kept elements are doubled", sorted(set(result.flatten().tolist())))
    lab.same("outside of training", vmap(lambda a: F.dropout(a, 0.5, training=False))(x))
    lab.raises(
        "dropout of a captured tensor",
        lambda: vmap(lambda a: a + F.dropout(x[0], 0.5))(x),
        RuntimeError,
        match="random",
    )
    same = vmap(lambda a: a * 0 + F.dropout(x[0], 0.5), randomness="same")(x)
    lab.holds(
        "dropout of a captured tensor: equal for all elements", all(torch.equal(row, same[0]) for row in same)
    )
    for size in (1, 3, 10):
        chunked = vmap(
            lambda a: a * torch.rand(SIZE, device=a.device), randomness="different", chunk_size=size
        )(x)
        lab.holds(
            f"in chunks of {size}: elements draw different numbers",
            len({tuple(row) for row in chunked.tolist()}) == BATCH,
        )
    jacobian = torch.func.jacfwd(lambda a: a * torch.rand(8, device=a.device), randomness="same")(x[0, :8])
    lab.holds("jacfwd draws once", bool((jacobian.diagonal() > 0).all()) and not bool(jacobian.triu(1).any()))
    lab.raises(
        "jacfwd by default", lambda: torch.func.jacfwd(lambda a: a * torch.rand_like(a))(x[0]), RuntimeError
    )
