"""Random programs give eager's bits when they are recorded lazily, captured, replayed and called.

A recipe that is taken for another program's is the worst that can happen: each program comes with relatives
that differ in little; all of them are run in turns, on data that changes every time.
"""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch as ht
import pytest
import torch
from helpers import engine_programs as programs

from tests.support.nightly import NIGHTLY, every

C = ht._C
SEEDS = 60
CHUNK = 20
#: Outside the nightly run every third program is replayed and called, and every sixth is queued.
TRIED = every(3, range(SEEDS))

RUN = "import sys; from helpers import engine_programs; engine_programs.main(*sys.argv[1:])"


@pytest.fixture(scope="module")
def eager_results():
    """Function: what eager mode gives for all runs of a seed's schedule."""
    known = {}

    def results(seed):
        if seed not in known:
            known[seed] = programs.run_schedule(seed, lambda turn: None)
        return known[seed]

    return results


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("first", range(0, SEEDS if NIGHTLY else CHUNK, CHUNK))
def test_lazy_is_eager(run_python, eager_results, tmp_path: Path, first, mode):
    last = first + (CHUNK if mode == 1 else CHUNK // 4)
    path = tmp_path / "results.pt"
    done = run_python(RUN, str(path), str(mode), str(first), str(last), timeout=300)
    assert done.returncode == 0, done.stderr
    saved = torch.load(path, weights_only=False)
    if mode == 1:
        assert saved["statistics"]["hits"] > saved["statistics"]["misses"]
    wrong = []
    for seed in range(first, last):
        runs = zip(saved["results"][seed], eager_results(seed), strict=True)
        for turn, (actual, expected) in enumerate(runs):
            wrong += [(seed, turn, text) for text in programs.differences(actual, expected)]
    assert not wrong, wrong[:3]


def _eager(program, data, seed):
    torch.manual_seed(seed)
    return programs.snapshot(programs.run(program, programs.on_device(data), data))


def _family(seed):
    program = programs.make_program(seed)
    return [program, *programs.relatives(program, seed, 2)]


class _Captured:
    """A program captured over tensors of its own."""

    def __init__(self, program, seed, dry_run=False):
        self.program = program
        self.seed = seed
        self.first = programs.Data.of(program, seed)
        self.static = programs.on_device(self.first)
        self.hosts = {name: tensor.clone() for name, tensor in self.first.hosts.items()}
        self.graph = C.Graph()
        data = programs.Data(self.static, self.hosts, self.first.numbers)
        torch.manual_seed(seed)
        self.graph.begin(dry_run)
        self.pool = programs.run(program, dict(self.static), data)
        self.graph.end()

    def new_data(self, seed):
        data = programs.Data.of(self.program, seed, self.first.numbers)
        for name, host in self.hosts.items():
            host.copy_(data.hosts[name])
        return data


@pytest.mark.parametrize("seed", TRIED)
def test_replays_are_eager(seed):
    for program in _family(seed):
        captured = _Captured(program, 100 * seed)
        expected = _eager(program, captured.first, 100 * seed)
        assert programs.differences(programs.snapshot(captured.pool), expected) == []
        for turn in range(1, 4):
            data = captured.new_data(100 * seed + turn)
            for name, tensor in captured.static.items():
                tensor.copy_(data.inputs[name])
            expected = _eager(program, data, turn)
            torch.manual_seed(turn)
            captured.graph.replay(asynchronous=turn == 2)
            assert programs.differences(programs.snapshot(captured.pool), expected) == [], turn


@pytest.mark.parametrize("seed", TRIED)
def test_calls_are_eager(seed):
    for program in _family(seed):
        captured = _Captured(program, 100 * seed, dry_run=seed % 2 == 0)
        if seed % 2 == 0:
            for name, tensor in captured.static.items():
                assert torch.equal(tensor.cpu(), captured.first.inputs[name]), "a dry run changes nothing"
        inputs = list(captured.static)
        outputs = [name for name in captured.pool if name not in captured.static]
        captured.graph.set_interface(
            [captured.static[name] for name in inputs], [captured.pool[name] for name in outputs]
        )
        captured.pool.clear()
        kept = []
        for turn in range(1, 4):
            data = captured.new_data(100 * seed + turn)
            expected = _eager(program, data, turn)
            given = programs.on_device(data)
            torch.manual_seed(turn)
            made = captured.graph.call([given[name] for name in inputs], asynchronous=turn == 2)
            pool = dict(zip(outputs, made, strict=True))
            pool |= {name: given[name] for name in inputs if name in expected}
            assert programs.differences(programs.snapshot(pool), expected) == [], turn
            kept.append((pool, expected))
        for pool, expected in kept:  # no call has touched what an earlier one returned
            assert programs.differences(programs.snapshot(pool), expected) == []


@pytest.mark.parametrize("seed", every(2, range(0, SEEDS, 3)))
def test_queued_is_eager(seed, eager_results):
    C.set_queue_all(20, seed)
    queued = programs.run_schedule(seed, lambda turn: None)
    C.set_queue_all(-1)
    for turn, (run, expected) in enumerate(zip(queued, eager_results(seed), strict=True)):
        assert programs.differences(run, expected) == [], turn


def test_programs_have_what_they_are_to_test():
    kinds = set()
    for seed in range(SEEDS):
        program = programs.make_program(seed)
        assert programs.is_runnable(program)
        kinds |= {step.kind for step in program.steps}
    assert kinds >= {*programs.NEW, *programs.CHANGE, "free", "host"} - {"out_mm"}
    families = [len(_family(seed)) for seed in range(20)]
    assert sum(families) >= 55
