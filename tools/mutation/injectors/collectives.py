"""Faults of a process group, from the side of the worker: the ranks plant them (:mod:`ranks`)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.distributed import PREPARE
from tools.mutation.injectors import rank_side
from tools.mutation.injectors.injector import NO_DTYPE, Counts, Observed, Planter
from tools.mutation.mutant import Fault

KINDS: Mapping[str, str] = {name: kind.words for name, kind in rank_side.BY_NAME.items()}


class Collectives(Planter):
    """Says to the ranks of this worker, by files, which fault to plant, and reads what they met."""

    def __init__(self) -> None:
        found, allowed = rank_side.functions()
        self.faults = [Fault(place, kind) for place in found for kind in allowed[place]]
        self._keeper = tempfile.TemporaryDirectory(prefix="conformance-power-")
        self._folder = Path(self._keeper.name)
        os.environ[PREPARE] = rank_side.__name__
        os.environ[rank_side.FOLDER] = str(self._folder)
        #: By file, the lines that were read.
        self._lines: dict[Path, int] = {}

    def observe(self, on: bool) -> None:
        """Begin or end looking."""
        self._arm(rank_side.LOOK if on else "")

    def take_observed(self) -> Observed:
        """Return what calls of any rank met."""
        met: set[int] = set()
        called: set[int] = set()
        for word, number in self._new():
            if word == "met":
                met.add(int(number))
            elif word == "called":
                called.add(int(number))
        return Observed(
            [(number, NO_DTYPE) for number in sorted(met)], [(place, 0, NO_DTYPE) for place in sorted(called)]
        )

    def arm(self, fault: Fault) -> None:
        """Plant a fault in every rank."""
        list(self._new())
        self._arm(str(fault))

    def disarm(self) -> Counts:
        """Remove the planted fault."""
        self._arm("")
        counts = [number.split(" ") for word, number in self._new() if word == "count"]
        return Counts(sum(int(met) for met, _ in counts), sum(int(effects) for _, effects in counts))

    def _arm(self, word: str) -> None:
        part = self._folder / "part"
        part.write_text(word)
        part.rename(self._folder / rank_side.ARMED)

    def _new(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self._folder.glob("*.seen")):
            lines = path.read_text().splitlines()
            for line in lines[self._lines.get(path, 0) :]:
                word, _, rest = line.partition(" ")
                yield word, rest
            self._lines[path] = len(lines)
