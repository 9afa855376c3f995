"""The regression sample: mutants with their killing results. It shows in minutes whether the mutation score
has fallen.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.errors import UsageError
from conformance.process_control.supervisor import Supervisor
from tools.mutation import campaign
from tools.mutation.campaign import Fate, Job, MutantResult
from tools.mutation.mutant import Mutant

FILE = Path(__file__).parent / "regression_sample.json"
#: The number of mutants in the sample.
COUNT = 500
#: The maximal duration in seconds of a killing result in the sample.
_QUICK = 2.0


@dataclasses.dataclass(frozen=True)
class Sample:
    """Mutants with their killing results, for one torch minor and one mode."""

    torch: str
    mode: str
    killers: Mapping[str, str]

    def write(self, path: Path = FILE) -> None:
        """Write the sample as JSON, one line for each mutant."""
        rows = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(by)}" for name, by in sorted(self.killers.items())
        )
        head = f'"torch": {json.dumps(self.torch)}, "mode": {json.dumps(self.mode)}'
        path.write_text(f'{{{head}, "killers": {{\n{rows}\n}}}}\n')

    @staticmethod
    def read(path: Path = FILE) -> Sample:
        """Return the sample that :meth:`write` wrote. Raise UsageError if the file is not a sample."""
        try:
            data = json.loads(path.read_text())
            return Sample(data["torch"], data["mode"], dict(data["killers"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{path} is not a sample of mutants ({error}). Regenerate it with --write-sample."
            ) from None


def choose_sample(outcomes: Iterable[MutantResult], torch: str, mode: str, count: int = COUNT) -> Sample:
    """Return a sample of ``count`` mutants that have a fast killing result. Each mutation operator
    contributes one mutant in turn, in the order of the outcomes.
    """
    outcomes_by_operator: dict[str, list[MutantResult]] = {}
    for outcome in outcomes:
        if outcome.fate == Fate.KILLED.value and outcome.how == "fail" and outcome.seconds < _QUICK:
            outcomes_by_operator.setdefault(Mutant.parse(outcome.mutant).operator, []).append(outcome)
    killers: dict[str, str] = {}
    turn = 0
    while len(killers) < count and any(turn < len(rows) for rows in outcomes_by_operator.values()):
        for rows in outcomes_by_operator.values():
            if turn < len(rows) and len(killers) < count and rows[turn].killer is not None:
                killers[rows[turn].mutant] = str(rows[turn].killer)
        turn += 1
    return Sample(torch, mode, killers)


def run_sample(workers: Supervisor[Job], sample: Sample) -> list[MutantResult]:
    """Run each mutant of the sample on its killing result, and return all outcomes."""
    jobs: list[Job] = [
        {"do": "attempt", "fault": name, "results": [killer], "limit": campaign.LIMIT}
        for name, killer in sorted(sample.killers.items(), key=lambda item: item[1])
    ]
    replies = workers.run_units(jobs, silence=campaign.PATIENCE)
    return [campaign.mutant_result(job, reply) for job, reply in replies]
