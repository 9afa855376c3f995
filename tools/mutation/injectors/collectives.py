"""Inject mutants of a process group: the part that runs in the worker. The ranks run :mod:`rank_process`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.distributed import PREPARE
from tools.mutation.injectors import rank_process
from tools.mutation.injectors.injector import NO_DTYPE, Counts, Injector, Observed
from tools.mutation.mutant import Mutant

MUTATION_OPERATORS: Mapping[str, str] = {
    name: kind.description for name, kind in rank_process.BY_NAME.items()
}


class CollectiveInjector(Injector):
    """Passes a mutant to the ranks of this worker through a file, and reads the events that the ranks
    recorded.
    """

    def __init__(self) -> None:
        functions_by_point, allowed = rank_process.functions_and_operators()
        self.mutants = [
            Mutant(point, operator) for point in functions_by_point for operator in allowed[point]
        ]
        self._keeper = tempfile.TemporaryDirectory(prefix="conformance-power-")
        self._folder = Path(self._keeper.name)
        os.environ[PREPARE] = rank_process.__name__
        os.environ[rank_process.FOLDER] = str(self._folder)
        #: The number of lines already read of each file.
        self._lines: dict[Path, int] = {}

    def observe(self, on: bool) -> None:
        """Start or stop recording triggered mutants."""
        self._write_command(rank_process.OBSERVE if on else "")

    def take_observed(self) -> Observed:
        """Return the mutants that calls of any rank have triggered since this method was last called."""
        triggered: set[int] = set()
        called: set[int] = set()
        for event, number in self._new_events():
            if event == "met":
                triggered.add(int(number))
            elif event == "called":
                called.add(int(number))
        return Observed(
            [(number, NO_DTYPE) for number in sorted(triggered)],
            [(point_index, 0, NO_DTYPE) for point_index in sorted(called)],
        )

    def enable(self, mutant: Mutant) -> None:
        """Enable a mutant in every rank."""
        list(self._new_events())
        self._write_command(str(mutant))

    def disable(self) -> Counts:
        """Disable the mutant and return its counts."""
        self._write_command("")
        counts = [number.split(" ") for event, number in self._new_events() if event == "count"]
        return Counts(
            sum(int(triggered) for triggered, _ in counts), sum(int(effects) for _, effects in counts)
        )

    def _write_command(self, text: str) -> None:
        temporary_file = self._folder / "part"
        temporary_file.write_text(text)
        temporary_file.rename(self._folder / rank_process.COMMAND_FILE)

    def _new_events(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self._folder.glob("*.seen")):
            lines = path.read_text().splitlines()
            for line in lines[self._lines.get(path, 0) :]:
                event, _, rest = line.partition(" ")
                yield event, rest
            self._lines[path] = len(lines)
