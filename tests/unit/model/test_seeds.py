"""Seeds depend on names and on the seed of the run. If the run has the seed of the release, seeds depend on
names only.
"""

from __future__ import annotations

import argparse
import datetime
import zlib

import pytest
import torch

from conformance.commands.common import parse_seed
from conformance.errors import UsageError
from conformance.model import seeds
from conformance.model.verdicts import seed_of
from conformance.samples import operators
from conformance.samples.cache import SubjectCache
from conformance.samples.random_programs.generator import generate_program
from conformance.subjects.torch_databases import find


@pytest.mark.parametrize("value", [None, "", "0"])
def test_the_seeds_of_the_release_depend_on_names_only(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv(seeds.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(seeds.VARIABLE, value)
    assert seed_of("add", "float32") == zlib.crc32(b"add@float32")


def test_the_seed_of_a_run_changes_samples_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for value in ("0", "7", "7"):
        monkeypatch.setenv(seeds.VARIABLE, value)
        monkeypatch.setattr(operators, "_cache", SubjectCache())
        sample = operators.samples_of(find("operator", "sin"), torch.float32).chosen(1)[0]
        drawn.append((sample.input.tolist(), str(generate_program(3, "float32")), seed_of("add", "float32")))
    assert drawn[1] == drawn[2]
    assert all(a != b for a, b in zip(drawn[0], drawn[1], strict=True))


def test_a_variable_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.VARIABLE, "monday")
    with pytest.raises(UsageError, match="CONFORMANCE_SEED is 'monday'; it must be a whole number"):
        seed_of("add", "float32")


@pytest.mark.parametrize("text", ["-1", "1.5", "", "tomorrow", "1" * 19, "²"])
def test_a_wrong_seed_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="neither 'today' nor a whole number"):
        parse_seed(text)


def test_the_seed_of_today_is_the_date() -> None:
    assert parse_seed("7") == 7
    now = datetime.datetime.now(datetime.timezone.utc)
    assert str(parse_seed("today")) in {f"{now - datetime.timedelta(minutes=1):%Y%m%d}", f"{now:%Y%m%d}"}
