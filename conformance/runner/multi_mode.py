"""Several modes of a target, one leg after the other; every process that loads the backend has one mode."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.plan.run_request import Request
from conformance.report import output_files
from conformance.results import document, exit_codes, run_folder
from conformance.runner import leg


def run(options: Request) -> list[Leg]:
    """Run a leg per mode into ``legs/BUILD-MODE``; return the legs, also if the user stops it.

    A mode that cannot start does not keep the others from running: it is a leg with exit code 2. One for
    which the user's selection leaves nothing is left out.

    Raises:
        UsageError: no mode has anything to run.
    """
    run_folder.clear(options.output)
    build = installed_torch.version()

    def one(mode: str) -> Leg:
        return leg.run(options, mode, options.output / "legs" / installed_torch.leg_name(build, mode))

    return each(options, one)


def each(options: Request, run_mode: Callable[[str], Leg]) -> list[Leg]:
    """The legs that ``run_mode`` returns for the modes of a run."""
    build = installed_torch.version()
    legs: list[Leg] = []
    for mode in options.modes:
        folder = options.output / "legs" / installed_torch.leg_name(build, mode)
        try:
            legs.append(run_mode(mode))
        except leg.NothingToRun as nothing:
            print(f"mode {mode} is left out: {nothing}", file=sys.stderr)
            continue
        except leg.Interrupted as stop:
            legs += stop.found
            output_files.write_reports(folder, legs[-1:])
            raise leg.Interrupted(legs) from None
        except KeyboardInterrupt:
            # Before the leg had a journal. The file must not read as if the modes so far were all.
            why = "stopped by the user before it began"
            legs.append(document.not_run(options, mode, build, why, code=exit_codes.INCOMPLETE))
            raise leg.Interrupted(legs) from None
        except UsageError as error:
            print(f"mode {mode} did not run: {error}", file=sys.stderr)
            legs.append(document.not_run(options, mode, build, str(error)))
            continue
        output_files.write_reports(folder, legs[-1:])
    if not legs:
        raise leg.NothingToRun(f"none of the modes {', '.join(options.modes)} has anything to run")
    return legs
