"""``doctor.registration_checks`` requires collectives only of targets with mode distributed."""

from __future__ import annotations

from conformance.doctor import registration_checks
from conformance.target import file as target_file


def test_collectives_are_required_only_with_mode_distributed() -> None:
    for modes, expected_ok in ((["eager"], None), (["eager", "distributed"], True)):
        target = target_file.load("cpu").target("eager")
        object.__setattr__(target, "modes", modes)
        (fact,) = (
            fact
            for fact in registration_checks.collect_registration_facts(target)
            if fact.subject == "c10d kernels"
        )
        assert fact.ok is expected_ok
