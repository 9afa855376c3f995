"""Collectives as functions of what all ranks give: how each is called, and what arithmetic says is due.

A collective takes from each rank a list of tensors and leaves each rank with a list of tensors. ``call`` is
what a rank does, with the given tensors on the device; ``due`` says on the CPU what every rank must have
then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = list[torch.Tensor]
Shape = tuple[int, ...]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
OTHERS = ("complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2")

#: Reduce operators by the word in a subject's name (``all_reduce.max``); the plain name means the sum.
REDUCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sum": ("SUM", (*FLOATS, *INTEGERS)),
    "product": ("PRODUCT", (*FLOATS, *INTEGERS)),
    "min": ("MIN", (*FLOATS, *INTEGERS)),
    "max": ("MAX", (*FLOATS, *INTEGERS)),
    "avg": ("AVG", FLOATS),
    "band": ("BAND", INTEGERS),
    "bor": ("BOR", INTEGERS),
    "bxor": ("BXOR", INTEGERS),
}


@dataclasses.dataclass
class Call:
    """What a rank's call has to go by. ``ranks`` are those of the group, by number in the world; ``root`` is
    one of them, ``me`` the place of this rank among them, ``word`` names the reduction.
    """

    ranks: Sequence[int]
    me: int
    root: int
    word: str = ""
    group: Any = None
    asynchronous: bool = False

    @property
    def op(self) -> Any:
        """The reduce operator of torch.distributed."""
        from torch.distributed import ReduceOp

        return getattr(ReduceOp, REDUCTIONS[self.word][0])

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclasses.dataclass
class Running:
    """A call that was issued: the tensors that will hold its results, and its handles where it was asked for
    any.
    """

    outputs: Tensors
    works: list[Any]

    def wait(self) -> Tensors:
        """The results, after the current stream was told to wait."""
        for work in self.works:
            if work is not None:
                work.wait()
        return self.outputs


Given = Callable[[int, int, Shape], list[Shape]]
Issue = Callable[[Any, Call, Tensors], Running]
Due = Callable[[list[Tensors], int, str], list[Tensors]]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective with one reduce operator, where it has one.

    ``given(me, size, shape)`` are the shapes of what a rank gives, ``issue(dist, call, tensors)`` calls it,
    and ``due(all that is given, place of the root, word of the reduction)`` are the results by rank.
    ``in_place``: the given tensors hold the results, else they must stay as they are. ``scalars``: there is a
    form for tensors without dimensions; ``asynchronous``: it takes ``async_op`` or gives handles;
    ``pairwise``: some ranks send, others receive, so that
    what one refuses the others wait for.
    """

    name: str
    given: Given
    issue: Issue
    due: Due
    dtypes: tuple[str, ...]
    reduction: str = ""
    in_place: bool = False
    scalars: bool = True
    asynchronous: bool = True
    pairwise: bool = False


def reduced(parts: Sequence[torch.Tensor], word: str) -> torch.Tensor:
    """Tensors of one shape and dtype reduced, in that dtype; an average by way of float64."""
    stacked = torch.stack(list(parts))
    if word == "avg":
        return stacked.double().mean(0).to(stacked.dtype)
    result = stacked[0].clone()
    for part in stacked[1:]:
        result = _PAIRS[word](result, part)
    return result


_PAIRS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


# What ranks give


def _one(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape]


def _two(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape, (*shape, 2)]


def _each(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape] * size


def _long(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(size * shape[0], *shape[1:])]


def _stack(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(size, *shape)]


def _uneven(me: int, size: int, shape: Shape) -> list[Shape]:
    return [(sum(_parts(me, size)), *shape)]


def _parts(me: int, size: int) -> list[int]:
    """Rows that rank ``me`` sends to each rank, different for every pair, some of them none."""
    return [(2 * me + 3 * to) % 4 for to in range(size)]


def _from_root(me: int, size: int, shape: Shape) -> list[Shape]:
    return [shape] * size  # every rank is given them, and only the root's count


# How each is called


def _options(call: Call) -> dict[str, Any]:
    return {"group": call.group, "async_op": call.asynchronous}


def _empty(like: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _all_reduce(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.all_reduce(given[0], op=call.op, **_options(call))])


def _all_reduce_coalesced(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.all_reduce_coalesced(given, op=call.op, **_options(call))])


def _reduce(dist: Any, call: Call, given: Tensors) -> Running:
    work = dist.reduce(given[0], call.ranks[call.root], op=call.op, **_options(call))
    return Running(given if call.me == call.root else [], [work])


def _broadcast(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.broadcast(given[0], call.ranks[call.root], **_options(call))])


def _all_gather(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = [torch.empty_like(given[0]) for _ in range(call.size)]
    return Running(outputs, [dist.all_gather(outputs, given[0], **_options(call))])


def _all_gather_into_tensor(dist: Any, call: Call, given: Tensors) -> Running:
    output = _empty(given[0], call.size * given[0].shape[0], *given[0].shape[1:])
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def _all_gather_stacked(dist: Any, call: Call, given: Tensors) -> Running:
    output = _empty(given[0], call.size, *given[0].shape)
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def _reduce_scatter(dist: Any, call: Call, given: Tensors) -> Running:
    output = torch.empty_like(given[0])
    return Running([output], [dist.reduce_scatter(output, given, op=call.op, **_options(call))])


def _reduce_scatter_tensor(dist: Any, call: Call, given: Tensors) -> Running:
    output = _empty(given[0], given[0].shape[0] // call.size, *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def _reduce_scatter_stacked(dist: Any, call: Call, given: Tensors) -> Running:
    output = _empty(given[0], *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def _all_to_all(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = [torch.empty_like(one) for one in given]
    return Running(outputs, [dist.all_to_all(outputs, given, **_options(call))])


def _all_to_all_single(dist: Any, call: Call, given: Tensors) -> Running:
    output = torch.empty_like(given[0])
    return Running([output], [dist.all_to_all_single(output, given[0], **_options(call))])


def _all_to_all_uneven(dist: Any, call: Call, given: Tensors) -> Running:
    mine = _parts(call.me, call.size)
    theirs = [_parts(other, call.size)[call.me] for other in range(call.size)]
    output = _empty(given[0], sum(theirs), *given[0].shape[1:])
    return Running([output], [dist.all_to_all_single(output, given[0], theirs, mine, **_options(call))])


def _gather(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = [torch.empty_like(given[0]) for _ in range(call.size)] if call.me == call.root else None
    work = dist.gather(given[0], outputs, call.ranks[call.root], **_options(call))
    return Running(outputs or [], [work])


def _scatter(dist: Any, call: Call, given: Tensors) -> Running:
    output = torch.empty_like(given[0])
    parts = given if call.me == call.root else None
    return Running([output], [dist.scatter(output, parts, call.ranks[call.root], **_options(call))])


def _ring(dist: Any, call: Call, given: Tensors) -> Running:
    to, source = call.ranks[(call.me + 1) % call.size], call.ranks[(call.me - 1) % call.size]
    output = torch.empty_like(given[0])
    if call.size == 1:
        return Running([output.copy_(given[0])], [])
    works = [dist.isend(given[0], to, group=call.group), dist.irecv(output, source, group=call.group)]
    return Running([output], works)


def _pairs(dist: Any, call: Call, given: Tensors) -> Running:
    output = torch.empty_like(given[0])
    other = call.ranks[call.me ^ 1] if call.me ^ 1 < call.size else None
    if other is None:
        output.copy_(given[0])
    elif call.me % 2 == 0:
        dist.send(given[0], other, group=call.group)
        dist.recv(output, other, group=call.group)
    else:
        dist.recv(output, other, group=call.group)
        dist.send(given[0], other, group=call.group)
    return Running([output], [])


def _batch(dist: Any, call: Call, given: Tensors) -> Running:
    output = torch.empty_like(given[0])
    if call.size == 1:
        return Running([output.copy_(given[0])], [])
    to, source = call.ranks[(call.me + 1) % call.size], call.ranks[(call.me - 1) % call.size]
    operations = [
        dist.P2POp(dist.isend, given[0], to, group=call.group),
        dist.P2POp(dist.irecv, output, source, group=call.group),
    ]
    return Running([output], list(dist.batch_isend_irecv(operations)))


def _waited(functional: Any, tensor: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = functional.wait_tensor(tensor)
    return found


def _functional(name: str) -> Issue:
    """A functional collective: its result is another tensor, which waits for itself when it is used."""

    def issue(dist: Any, call: Call, given: Tensors) -> Running:
        import torch.distributed._functional_collectives as functional

        group = call.group if call.group is not None else dist.group.WORLD
        if name == "all_reduce":
            found = functional.all_reduce(given[0], call.word, group)
        elif name == "all_gather_tensor":
            found = functional.all_gather_tensor(given[0], 0, group)
        elif name == "reduce_scatter_tensor":
            found = functional.reduce_scatter_tensor(given[0], call.word, 0, group)
        elif name == "broadcast":
            found = functional.broadcast(given[0], call.root, group)
        elif name == "all_to_all_single":
            found = functional.all_to_all_single(given[0], None, None, group)
        else:
            assert name == "all_reduce_coalesced"
            several = functional.all_reduce_coalesced(given, call.word, group)
            return Running([_waited(functional, one) for one in several], [])
        return Running([_waited(functional, found)], [])

    return issue


# What is due


def _due_all_reduced(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    results = [reduced([one[place] for one in given], word) for place in range(len(given[0]))]
    return [results] * len(given)


def _due_reduced_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    result = reduced([one[0] for one in given], word)
    return [[result] if me == root else [] for me in range(len(given))]


def _due_of_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[root][0]]] * len(given)


def _due_gathered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[0] for one in given]] * len(given)


def _due_gathered_at_root(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[0] for one in given] if me == root else [] for me in range(len(given))]


def _due_concatenated(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[torch.cat([one[0] for one in given])]] * len(given)


def _due_stacked(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[torch.stack([one[0] for one in given])]] * len(given)


def _due_layers_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[layer] for layer in reduced([one[0] for one in given], word).unbind(0)]


def _due_scattered_sums(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[reduced([one[me] for one in given], word)] for me in range(len(given))]


def _due_pieces_of_sum(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    whole = reduced([one[0] for one in given], word)
    rows = whole.shape[0] // len(given)
    return [[whole[me * rows : (me + 1) * rows]] for me in range(len(given))]


def _due_exchanged(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[one[me] for one in given] for me in range(len(given))]


def _due_exchanged_pieces(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    size = len(given)
    rows = given[0][0].shape[0] // size
    return [[torch.cat([one[0][me * rows : (me + 1) * rows] for one in given])] for me in range(size)]


def _due_exchanged_unevenly(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    size = len(given)
    return [
        [torch.cat([torch.split(one[0], _parts(other, size))[me] for other, one in enumerate(given)])]
        for me in range(size)
    ]


def _due_scattered(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[root][me]] for me in range(len(given))]


def _due_from_left(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[(me - 1) % len(given)][0]] for me in range(len(given))]


def _due_from_partner(given: list[Tensors], root: int, word: str) -> list[Tensors]:
    return [[given[me ^ 1 if me ^ 1 < len(given) else me][0]] for me in range(len(given))]


MOVED = (*FLOATS, *INTEGERS, *OTHERS)


def _moving(name: str, given: Given, issue: Issue, due: Due, **more: Any) -> Collective:
    return Collective(name, given, issue, due, MOVED, **more)


def _reducing(
    name: str, given: Given, issue: Issue, due: Due, words: Sequence[str] = tuple(REDUCTIONS), **more: Any
) -> list[Collective]:
    return [
        Collective(
            name if word == "sum" else f"{name}.{word}",
            given,
            issue,
            due,
            REDUCTIONS[word][1],
            reduction=word,
            **more,
        )
        for word in words
    ]


_FEW = ("sum", "max", "avg")

COLLECTIVES: tuple[Collective, ...] = (
    *_reducing("all_reduce", _one, _all_reduce, _due_all_reduced, in_place=True),
    *_reducing(
        "all_reduce_coalesced", _two, _all_reduce_coalesced, _due_all_reduced, ("sum",), in_place=True
    ),
    *_reducing("reduce", _one, _reduce, _due_reduced_at_root, in_place=True),
    _moving("broadcast", _one, _broadcast, _due_of_root, in_place=True),
    _moving("all_gather", _one, _all_gather, _due_gathered),
    _moving("all_gather_into_tensor", _one, _all_gather_into_tensor, _due_concatenated, scalars=False),
    _moving("all_gather_into_tensor.stacked", _one, _all_gather_stacked, _due_stacked),
    *_reducing("reduce_scatter", _each, _reduce_scatter, _due_scattered_sums),
    *_reducing("reduce_scatter_tensor", _long, _reduce_scatter_tensor, _due_pieces_of_sum, scalars=False),
    *_reducing(
        "reduce_scatter_tensor.stacked", _stack, _reduce_scatter_stacked, _due_layers_of_sum, ("sum",)
    ),
    _moving("all_to_all", _each, _all_to_all, _due_exchanged),
    _moving("all_to_all_single", _long, _all_to_all_single, _due_exchanged_pieces, scalars=False),
    _moving("all_to_all_single.uneven", _uneven, _all_to_all_uneven, _due_exchanged_unevenly),
    _moving("gather", _one, _gather, _due_gathered_at_root),
    _moving("scatter", _from_root, _scatter, _due_scattered, pairwise=True),
    _moving("isend_irecv", _one, _ring, _due_from_left, pairwise=True),
    _moving("send_recv", _one, _pairs, _due_from_partner, asynchronous=False, pairwise=True),
    _moving("batch_isend_irecv", _one, _batch, _due_from_left, pairwise=True),
    *_reducing(
        "functional.all_reduce", _one, _functional("all_reduce"), _due_all_reduced, _FEW, asynchronous=False
    ),
    *_reducing(
        "functional.all_reduce_coalesced",
        _two,
        _functional("all_reduce_coalesced"),
        _due_all_reduced,
        ("sum",),
        asynchronous=False,
    ),
    *_reducing(
        "functional.reduce_scatter_tensor",
        _long,
        _functional("reduce_scatter_tensor"),
        _due_pieces_of_sum,
        _FEW,
        scalars=False,
        asynchronous=False,
    ),
    _moving(
        "functional.all_gather_tensor",
        _one,
        _functional("all_gather_tensor"),
        _due_concatenated,
        scalars=False,
        asynchronous=False,
    ),
    _moving("functional.broadcast", _one, _functional("broadcast"), _due_of_root, asynchronous=False),
    _moving(
        "functional.all_to_all_single",
        _long,
        _functional("all_to_all_single"),
        _due_exchanged_pieces,
        scalars=False,
        asynchronous=False,
    ),
)


def find(name: str) -> Collective:
    """The collective of that name; LookupError where there is none."""
    for one in COLLECTIVES:
        if one.name == name:
            return one
    raise LookupError(f"no collective named {name!r}")


def numbers(rank: int, shape: Shape, dtype: torch.dtype, place: int = 0, word: str = "") -> torch.Tensor:
    """What a rank gives: small whole numbers, another pattern for each rank and place, exact in every dtype.

    Their sums, products and averages over eight ranks are exact too, but for products of int8, which wrap
    everywhere alike.
    """
    count = torch.Size(shape).numel()
    raw = (torch.arange(count) * 3 + rank * 5 + place * 2 + 1) % 7
    if dtype == torch.bool:
        made = raw % 2 == 0
    elif word == "product":
        made = (raw % 2 + 1).to(dtype)
    elif not dtype.is_signed:
        made = raw.to(dtype)
    elif dtype.is_complex:
        made = torch.complex(raw.double() - 3, (raw.double() * 2 + rank) % 5).to(dtype)
    else:
        made = (raw.to(torch.float32) - 3).to(dtype)
    return made.reshape(shape)
