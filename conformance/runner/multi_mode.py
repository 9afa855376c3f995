"""Run several modes of a target, one after the other. A process that loads the backend runs one mode only."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.plan.run_request import RunRequest
from conformance.report import output_files
from conformance.results import document, exit_codes, run_folder
from conformance.runner import leg


def run_modes(options: RunRequest) -> list[Leg]:
    """Run one leg per mode, with the output folder ``legs/BUILD-MODE``, and return the legs.

    If a mode cannot start, its leg has exit code 2 and the other modes still run. A mode in which the user's
    selection matches nothing is omitted. The folder keeps the files of an earlier run until the first mode
    can start.

    Raises:
        UsageError: no mode has a result to run, or no mode can start and ``--part`` is not set.
        Interrupted: the user stopped the run.
        KeyboardInterrupt: the user stopped the run before the first mode could start.
    """
    build = installed_torch.version()
    started: list[str] = []

    def run_one_mode(mode: str) -> Leg:
        def clear_output() -> None:
            if not started:
                run_folder.clear_folder(options.output)
            started.append(mode)

        folder = options.output / "legs" / installed_torch.leg_name(build, mode)
        return leg.run_new_leg(options, mode, folder, before_start=clear_output)

    try:
        legs = run_each_mode(options, run_one_mode, has_started=lambda: bool(started) or options.part)
    except leg.RunInterrupted:
        if not started:
            raise KeyboardInterrupt from None
        raise
    if not started:  # only with --part: the reasons replace the earlier run
        run_folder.clear_folder(options.output)
    return legs


def run_each_mode(
    options: RunRequest, run_mode: Callable[[str], Leg], *, has_started: Callable[[], bool] = lambda: True
) -> list[Leg]:
    """Call ``run_mode`` for each mode of a run, write each leg's reports, and return the legs.

    A mode for which ``run_mode`` raises UsageError gets a leg without results. If ``has_started`` returns
    False after all modes, nothing was written, and the UsageError of the first mode is raised.
    """
    build = installed_torch.version()
    legs: list[Leg] = []
    errors: list[UsageError] = []
    for mode in options.modes:
        folder = options.output / "legs" / installed_torch.leg_name(build, mode)
        try:
            legs.append(run_mode(mode))
        except leg.NothingToRun as nothing:
            print(f"mode {mode} is omitted: {nothing}", file=sys.stderr)
            continue
        except leg.RunInterrupted as stop:
            legs += stop.legs
            output_files.write_reports(folder, legs[-1:])
            raise leg.RunInterrupted(legs) from None
        except KeyboardInterrupt:
            # The user stopped the run before this leg had a journal. Add a leg without results, so that the
            # results document does not look like a complete run of fewer modes.
            reason = "the user stopped the run before this mode began"
            legs.append(document.leg_not_run(options, mode, build, reason, code=exit_codes.INCOMPLETE))
            raise leg.RunInterrupted(legs) from None
        except UsageError as error:
            errors.append(error)
            print(f"mode {mode} did not run: {error}", file=sys.stderr)
            legs.append(document.leg_not_run(options, mode, build, str(error)))
            continue
        output_files.write_reports(folder, legs[-1:])
    if errors and not has_started():
        raise UsageError(f"no mode can start: {errors[0]}")
    if not legs:
        raise leg.NothingToRun(f"none of the modes {', '.join(options.modes)} has anything to run")
    return legs
