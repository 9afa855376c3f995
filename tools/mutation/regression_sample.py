"""A sample of mutants with the result that kills each: shows in minutes that the power has not fallen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.errors import UsageError
from conformance.process_control.supervisor import Supervisor
from tools.mutation import campaign
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Fault

FILE = Path(__file__).parent / "regression_sample.json"
#: Mutants of the sample.
COUNT = 500
#: Seconds that a result may take so that the sample takes it.
_QUICK = 2.0


@dataclasses.dataclass(frozen=True)
class Sample:
    """Mutants by name, each with the result that kills it, for one minor of torch and one mode."""

    torch: str
    mode: str
    killers: Mapping[str, str]

    def write(self, path: Path = FILE) -> None:
        """Write the sample as JSON, a line for each mutant."""
        rows = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(by)}" for name, by in sorted(self.killers.items())
        )
        head = f'"torch": {json.dumps(self.torch)}, "mode": {json.dumps(self.mode)}'
        path.write_text(f'{{{head}, "killers": {{\n{rows}\n}}}}\n')

    @staticmethod
    def read(path: Path = FILE) -> Sample:
        """Read what :meth:`write` wrote; UsageError if it is not that."""
        try:
            data = json.loads(path.read_text())
            return Sample(data["torch"], data["mode"], dict(data["killers"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not a sample of mutants ({error})") from None


def choose(outcomes: Iterable[MutantResult], torch: str, mode: str, count: int = COUNT) -> Sample:
    """Take mutants that a quick result killed, of each kind in turn, in the order of the outcomes."""
    by_kind: dict[str, list[MutantResult]] = {}
    for outcome in outcomes:
        if outcome.fate == Fate.KILLED.value and outcome.how == "fail" and outcome.seconds < _QUICK:
            by_kind.setdefault(Fault.parse(outcome.mutant).kind, []).append(outcome)
    killers: dict[str, str] = {}
    turn = 0
    while len(killers) < count and any(turn < len(rows) for rows in by_kind.values()):
        for rows in by_kind.values():
            if turn < len(rows) and len(killers) < count and rows[turn].killer is not None:
                killers[rows[turn].mutant] = str(rows[turn].killer)
        turn += 1
    return Sample(torch, mode, killers)


def run(workers: Supervisor[Job], sample: Sample) -> list[MutantResult]:
    """Try each mutant of the sample on the result that killed it, and return the outcomes of all."""
    jobs: list[Job] = [
        {"do": "attempt", "fault": name, "results": [killer], "limit": campaign.LIMIT}
        for name, killer in sorted(sample.killers.items(), key=lambda item: item[1])
    ]
    replies = workers.run_units(jobs, silence=campaign.PATIENCE)
    return [campaign.outcome(job, reply) for job, reply in replies]
