"""Run random programs in lazy mode, as captured graphs and queued. Compare all bits with eager mode.

The worst failure would be that the device runs the recipe (compiled graph) of a different program. Each
program therefore runs in turn with similar programs, on different data each time.
"""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch as ht
import pytest
import torch
from helpers import tensor_programs as programs

from tests.support.nightly import NIGHTLY, every_nth

C = ht._C
SEEDS = 60
CHUNK = 20
#: Seeds of the tests that replay or call graphs: all seeds in the nightly run, otherwise every third seed.
REPLAYED_SEEDS = every_nth(3, range(SEEDS))

RUN = "import sys; from helpers import tensor_programs; tensor_programs.main(*sys.argv[1:])"


@pytest.fixture(scope="module")
def eager_results():
    """Return a function that returns the results of eager mode for the schedule of a seed."""
    results_by_seed = {}

    def results_of_seed(seed):
        if seed not in results_by_seed:
            results_by_seed[seed] = programs.run_programs_of_seed(seed, lambda turn: None)
        return results_by_seed[seed]

    return results_of_seed


@pytest.mark.nightly("the nightly fuzzer runs the same programs for longer", every=3)
@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("first", range(0, SEEDS if NIGHTLY else CHUNK, CHUNK))
def test_lazy_mode_matches_eager_mode(run_python, eager_results, tmp_path: Path, first, mode):
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
            wrong += [(seed, turn, text) for text in programs.differences_between_snapshots(actual, expected)]
    assert not wrong, wrong[:3]


def _run_eagerly_and_copy(program, data, seed):
    torch.manual_seed(seed)
    return programs.copy_pool_to_host(programs.run_program(program, programs.inputs_on_device(data), data))


def _program_and_variants(seed):
    program = programs.make_program(seed)
    return [program, *programs.programs_with_small_changes(program, seed, 2)]


class _CapturedProgram:
    """A program, its captured graph, and the device and host tensors that the graph reads."""

    def __init__(self, program, seed, dry_run=False):
        self.program = program
        self.seed = seed
        self.first = programs.InputData.for_program(program, seed)
        self.static = programs.inputs_on_device(self.first)
        self.hosts = {name: tensor.clone() for name, tensor in self.first.hosts.items()}
        self.graph = C.Graph()
        data = programs.InputData(self.static, self.hosts, self.first.numbers)
        torch.manual_seed(seed)
        self.graph.begin(dry_run)
        self.pool = programs.run_program(program, dict(self.static), data)
        self.graph.end()

    def set_new_data(self, seed):
        data = programs.InputData.for_program(self.program, seed, self.first.numbers)
        for name, host in self.hosts.items():
            host.copy_(data.hosts[name])
        return data


@pytest.mark.parametrize("seed", REPLAYED_SEEDS)
def test_replays_match_eager_mode(seed):
    for program in _program_and_variants(seed):
        captured = _CapturedProgram(program, 100 * seed)
        expected = _run_eagerly_and_copy(program, captured.first, 100 * seed)
        assert (
            programs.differences_between_snapshots(programs.copy_pool_to_host(captured.pool), expected) == []
        )
        for turn in range(1, 4):
            data = captured.set_new_data(100 * seed + turn)
            for name, tensor in captured.static.items():
                tensor.copy_(data.inputs[name])
            expected = _run_eagerly_and_copy(program, data, turn)
            torch.manual_seed(turn)
            captured.graph.replay(asynchronous=turn == 2)
            assert (
                programs.differences_between_snapshots(programs.copy_pool_to_host(captured.pool), expected)
                == []
            ), turn


@pytest.mark.parametrize("seed", REPLAYED_SEEDS)
def test_calls_match_eager_mode(seed):
    for program in _program_and_variants(seed):
        captured = _CapturedProgram(program, 100 * seed, dry_run=seed % 2 == 0)
        if seed % 2 == 0:
            for name, tensor in captured.static.items():
                assert torch.equal(tensor.cpu(), captured.first.inputs[name]), "the dry run changed an input"
        inputs = list(captured.static)
        outputs = [name for name in captured.pool if name not in captured.static]
        captured.graph.set_io_binding(
            [captured.static[name] for name in inputs], [captured.pool[name] for name in outputs]
        )
        captured.pool.clear()
        earlier_pools = []
        for turn in range(1, 4):
            data = captured.set_new_data(100 * seed + turn)
            expected = _run_eagerly_and_copy(program, data, turn)
            inputs_on_device = programs.inputs_on_device(data)
            torch.manual_seed(turn)
            outputs_of_call = captured.graph.call(
                [inputs_on_device[name] for name in inputs], asynchronous=turn == 2
            )
            pool = dict(zip(outputs, outputs_of_call, strict=True))
            pool |= {name: inputs_on_device[name] for name in inputs if name in expected}
            assert programs.differences_between_snapshots(programs.copy_pool_to_host(pool), expected) == [], (
                turn
            )
            earlier_pools.append((pool, expected))
        for pool, expected in earlier_pools:  # later calls must not change the results of an earlier call
            assert programs.differences_between_snapshots(programs.copy_pool_to_host(pool), expected) == []


@pytest.mark.parametrize("seed", every_nth(2, range(0, SEEDS, 3)))
def test_queued_runs_match_eager_mode(seed, eager_results):
    C.set_queue_all(20, seed)
    queued = programs.run_programs_of_seed(seed, lambda turn: None)
    C.set_queue_all(-1)
    for turn, (run, expected) in enumerate(zip(queued, eager_results(seed), strict=True)):
        assert programs.differences_between_snapshots(run, expected) == [], turn


def test_programs_contain_all_kinds_of_steps():
    kinds = set()
    for seed in range(SEEDS):
        program = programs.make_program(seed)
        assert programs.is_runnable(program)
        kinds |= {step.kind for step in program.steps}
    assert kinds >= {*programs.NEW, *programs.CHANGE, "free", "host"} - {"out_mm"}
    families = [len(_program_and_variants(seed)) for seed in range(20)]
    assert sum(families) >= 55
