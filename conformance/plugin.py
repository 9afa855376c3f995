"""The pytest plugin of the suite.

Usage: ``pytest -p conformance.plugin --pyargs conformance.pytest_modules --conformance-target cpu``

One pytest item is one case. Under ``conformance run`` the plugin reads the plan from a file and writes
results only to the journal. Without the runner, the plugin builds the plan and also reports to pytest. The
processes that run cases import torch. The controller of pytest-xdist does not import torch.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.errors import UsageError
from conformance.model.verdicts import Result, Verdict
from conformance.model.vocabulary import AREA_KINDS
from conformance.plan.plan import Case, Plan, Shard, build_plan
from conformance.process_control import exit_with_parent, memory_limit
from conformance.process_control.garbage_collector import LiveObjectFreezer
from conformance.pytest_modules import Cases
from conformance.results.journal import Journal, reference_digest_writer
from conformance.results.run_state import LOST_SUBJECTS_IN_A_ROW, kind_of_dtype
from conformance.samples import sample_limit
from conformance.worker import continued_cases
from conformance.worker.continued_cases import BegunResults
from conformance.worker.waiting_workers import WaitingWorkers, process_id

if TYPE_CHECKING:
    from conformance.worker.executor import Executor

DEFAULT_TIMEOUT = 120.0

_SESSION = pytest.StashKey["SuiteSession"]()


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Replace ``conformance.suite``, the old name of the test modules, in pytest's arguments by the current
    name. Issue a warning for each replacement.
    """
    for position, argument in enumerate(args):
        if argument.partition("::")[0] == "conformance.suite":
            warnings.warn(
                "conformance.suite is now called conformance.pytest_modules", DeprecationWarning, stacklevel=1
            )
            args[position] = argument.replace("conformance.suite", "conformance.pytest_modules", 1)


def pytest_report_header() -> list[str]:
    """Return a warning if the hash seed is not 0: the samples then vary between runs."""
    if os.environ.get("PYTHONHASHSEED") == "0":
        return []
    return ["conformance: set PYTHONHASHSEED=0 to get the same samples as `conformance run`"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--conformance-*`` options to pytest."""
    group = parser.getgroup("conformance", "conformance of a PyTorch backend")
    group.addoption(
        "--conformance-target", metavar="NAME_OR_FILE", default="cpu", help="target (default: cpu)"
    )
    group.addoption("--conformance-mode", metavar="MODE", default="eager", help="mode (default: eager)")
    group.addoption("--conformance-level", metavar="LEVEL", default="full", help="level (default: full)")
    group.addoption("--conformance-shard", metavar="I/N", default="1/1", help="run part I of N of the plan")
    group.addoption("--conformance-samples", metavar="all|N", default="default", help="samples per result")
    group.addoption("--conformance-output", metavar="DIR", help="folder for journal.jsonl and tracebacks")
    group.addoption("--conformance-only", metavar="FILE", help="run the plan in this file")
    group.addoption("--conformance-timeout", metavar="SECONDS", type=float, default=DEFAULT_TIMEOUT)
    group.addoption(
        "--conformance-additional-workers",
        metavar="N",
        type=int,
        default=0,
        help="start up to N more pytest-xdist workers while the cases of other workers wait",
    )
    group.addoption("--conformance-attempt", metavar="N", type=int, default=1, help="number of this attempt")
    group.addoption(
        "--conformance-extra", metavar="MODULE", action="append", default=[], help="module with properties"
    )
    group.addoption("--conformance-profile", action="store_true", help="write time events to the journal")
    group.addoption("--conformance-quiet", action="store_true", help="report to the journal only")


class SuiteSession:
    """The state of one pytest process: its options, its plan, and its executor after the first case."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.worker = f"{getattr(config, 'workerinput', {}).get('workerid', 'main')}-{os.getpid()}"
        self.quiet: bool = config.getoption("--conformance-quiet")
        output: str | None = config.getoption("--conformance-output")
        self.output = Path(output).resolve() if output else None
        self._cases: dict[str, list[Case]] | None = None
        self._executor: Executor | None = None
        self._begun: BegunResults | None = None
        self._first_kinds: dict[str, str] | None = None
        self._journal: Journal | None = None
        self.object_freezer = LiveObjectFreezer()

    @property
    def is_xdist_controller(self) -> bool:
        """True if this process is the controller of pytest-xdist, which runs no cases."""
        return not hasattr(self.config, "workerinput") and bool(getattr(self.config.option, "tx", None))

    def kind_of_first_dtype(self, nodeid: str) -> str:
        """Return the kind (``int``, ``16 bits``, …) of the first dtype in which the case of an item runs.

        Return an empty text if there is no plan file, because building a plan would import torch.
        """
        if self.config.getoption("--conformance-only") is None:
            return ""
        if self._first_kinds is None:
            self._first_kinds = {
                case.id: kind_of_dtype(case.dtypes_in_run_order()[0]) for case in self._plan().cases
            }
        return self._first_kinds.get(nodeid.partition("[")[2].removesuffix("]"), "")

    def journal_independent_loss(self, node: Any) -> None:
        """Write to the journal that a worker was lost although no other worker blocked the device."""
        if self.output is not None:
            journal = Journal(self.output / "journal.jsonl")
            journal.write("independent", worker=f"{node.gateway.id}-{process_id(node)}")
            journal.close()

    def mark_as_continued(self, nodeid: str) -> None:
        """Record that another worker continues the case of an item. That worker skips the dtypes that have
        begun already.
        """
        if self.output is not None:
            continued_cases.mark_as_continued(self.output, nodeid)

    def cases(self, kind: str) -> list[Case]:
        """Return the planned cases of a subject kind."""
        if self._cases is None:
            self._cases = {}
            for case in self._plan().cases:
                self._cases.setdefault(case.kind, []).append(case)
        return self._cases.get(kind, [])

    def _plan(self) -> Plan:
        option = self.config.getoption
        only: str | None = option("--conformance-only")
        if only is not None:
            return Plan.read(Path(only))
        return build_plan(self._target(), option("--conformance-level")).shard(
            Shard.parse(option("--conformance-shard")), option("--conformance-mode")
        )

    def _target(self) -> Any:
        from conformance.subjects import catalogue
        from conformance.target import file as target_file

        catalogue.load_extra(self.config.getoption("--conformance-extra"))
        file = target_file.load(self.config.getoption("--conformance-target"))
        mode = self.config.getoption("--conformance-mode")
        file.check_mode(mode)
        os.environ.update(file.variables(mode))
        return file.target(mode)

    def executor(self) -> Executor:
        """Return the executor of this process. The first call imports and initialises the backend."""
        if self._executor is None:
            from conformance.device.bring_up import bring_up
            from conformance.oracle import value_digests
            from conformance.process_control.watchdog import Watchdog
            from conformance.worker.executor import Executor

            target = self._target()
            sample_limit.set_limit(self.config.getoption("--conformance-samples"))
            watchdog = None
            if self.output is not None:
                folder = self.output / "tracebacks"
                folder.mkdir(parents=True, exist_ok=True)
                self._journal = Journal(self.output / "journal.jsonl")
                self._journal.write("worker", worker=self.worker, pid=os.getpid())
                value_digests.set_digest_receiver(reference_digest_writer(self._journal))
                watchdog = Watchdog(
                    folder / f"{self.worker}.txt", self.config.getoption("--conformance-timeout")
                )
            bring_up(target)
            self._executor = Executor(
                target,
                journal=self._journal,
                watchdog=watchdog,
                worker=self.worker,
                attempt=self.config.getoption("--conformance-attempt"),
                repeats=True,
                driven=self.quiet,
                profiles=self.config.getoption("--conformance-profile"),
            )
        return self._executor

    def run(self, item: CaseItem) -> None:
        """Run the case of an item. If the case is continued, skip the dtypes that another worker began."""
        if self._begun is None and self.output is not None:
            self._begun = BegunResults(self.output, self.config.getoption("--conformance-attempt"))
        begun = self._begun
        self.executor().run(
            item.case, lambda result_id: begun is None or not begun.includes_result(item.nodeid, result_id)
        )

    @property
    def has_run_cases(self) -> bool:
        """True if this process has run cases."""
        return self._executor is not None

    def journal_end(self, reason: str) -> None:
        """Write an end event to the journal, so that this process does not count as a lost worker."""
        if self._journal is not None:
            self._journal.write("worker-end", worker=self.worker, reason=reason)


class CaseItem(pytest.Item):
    """One case as a pytest item."""

    def __init__(self, *, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        self.extra_keyword_matches.update((case.property, case.subject, case.kind, *case.dtypes))

    def runtest(self) -> None:
        """Run the case. Raise CaseFailed if the worst verdict is unexpected."""
        results = self.config.stash[_SESSION].executor().run(self.case)
        worst = Verdict.worst([result.verdict for result in results])
        if worst.unexpected:
            raise CaseFailed(results)
        if worst in (Verdict.UNSUPPORTED, Verdict.SKIP):
            pytest.skip("; ".join(note for result in results for note in result.notes) or worst.value)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the unexpected results of the case, or pytest's own text for any other exception."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the path of the test module and the id of the case."""
        return self.path, None, self.case.id


class CaseFailed(Exception):
    """A case with an unexpected verdict."""

    def __init__(self, results: Iterable[Result]) -> None:
        lines = []
        for result in results:
            if result.verdict.unexpected:
                lines.append(f"{result.id} {result.verdict.value} (seed {result.seed})")
                lines += [f"  {failure.kind.value}: {failure.message}" for failure in result.failures]
        super().__init__("\n".join(lines))


def pytest_configure(config: pytest.Config) -> None:
    """Create the session state. Under the runner, this process also ends when its parent process ends."""
    if config.getoption("--conformance-quiet"):
        exit_with_parent.exit_with_parent()
    config.stash[_SESSION] = SuiteSession(config)


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """If ``obj`` is a placeholder (:class:`Cases`), return a pytest item for each planned case of its subject
    kind.
    """
    if not isinstance(obj, Cases):
        return None
    session = collector.config.stash[_SESSION]
    try:
        planned = session.cases(obj.kind)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    return [CaseItem.from_parent(collector, name=f"{name}[{case.id}]", case=case) for case in planned]


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Run a case without pytest's setup, teardown and fixtures.

    Cases do not use setup, teardown or fixtures, which take longer than most cases.
    """
    if not isinstance(item, CaseItem):
        return None
    from conformance.worker.executor import DeviceUnusable, exit_at_once

    session = item.config.stash[_SESSION]
    started = time.time()
    try:
        if session.quiet:
            session.run(item)
            session.object_freezer.freeze_live_objects()
            if memory_limit.exceeds_memory_limit():
                session.journal_end("memory")
                exit_at_once()
        else:
            _run_with_reports(item)
    except DeviceUnusable as error:
        session.journal_end("device unusable")
        if session.quiet or hasattr(item.config, "workerinput"):
            exit_at_once()
        pytest.exit(f"{item.case.id} {error} (after {time.time() - started:.1f} s)")
    except UsageError as error:
        session.journal_end(str(error))
        pytest.exit(str(error), returncode=2)
    return True


def _run_with_reports(item: CaseItem) -> None:
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    call = pytest.CallInfo.from_call(
        item.runtest, when="call", reraise=(KeyboardInterrupt, pytest.exit.Exception)
    )
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, UsageError):
        raise error
    report = hook.pytest_runtest_makereport(item=item, call=call)
    hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # pytest has already reported a skip, although ``pytest.skip.Exception`` is not derived from
    # ``Exception``. Any other error that is not derived from ``Exception`` ends the session.
    if error is not None and not isinstance(error, (Exception, pytest.skip.Exception)):
        raise error


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the end event of this process to the journal."""
    session.config.stash[_SESSION].journal_end("done")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End a worker immediately: threads and exit handlers of a backend could block its exit forever."""
    session = config.stash.get(_SESSION, None)
    if session is not None and session.quiet and not session.is_xdist_controller and session.has_run_cases:
        from conformance.worker.executor import exit_at_once

        exit_at_once(0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler that distributes cases by subject."""
    from conformance.worker.xdist_scheduler import SubjectScheduling

    session = config.stash[_SESSION]
    distributor = config.pluginmanager.getplugin("dsession")
    first_attempt = config.getoption("--conformance-attempt") == 1
    scheduler = SubjectScheduling(
        len(config.option.tx),
        scheduling_group,
        log,
        # In a second attempt, a lost result does not withhold the other results of its subject.
        is_isolated=lambda nodeid: first_attempt and has_single_operator_subject(nodeid),
        property_of=property_node_id,
        property_losses=LOST_SUBJECTS_IN_A_ROW,
        variant_of=session.kind_of_first_dtype,
        continue_item=session.mark_as_continued,
        report_independent=session.journal_independent_loss,
        # pytest-xdist replaces a crashed worker in the same way. Any active worker can be cloned.
        start_worker=lambda: distributor._clone_node(next(iter(distributor._active_nodes))),
        most_additional=config.getoption("--conformance-additional-workers"),
        time_limit=config.getoption("--conformance-timeout"),
    )
    if config.getoption("--conformance-additional-workers"):
        WaitingWorkers(distributor, scheduler).start()
    return scheduler


def scheduling_group(nodeid: str) -> str:
    """Return the scheduling group of an item: its module and subject, independent of its property."""
    module, _, name = nodeid.partition("::")
    _, slash, subject = name.partition("/")
    return f"{module}/{subject}" if slash else nodeid


def property_node_id(nodeid: str) -> str:
    """Return the node id of an item without its subject. Items of one property have equal texts."""
    module, _, name = nodeid.partition("::")
    return f"{module}::{name.partition('/')[0]}"


def has_single_operator_subject(nodeid: str) -> bool:
    """Return True unless the subject of an item covers many operators, such as an API area."""
    module = nodeid.partition("::")[0].rpartition("/")[2]
    return module not in {f"test_{kind}.py" for kind in AREA_KINDS}
