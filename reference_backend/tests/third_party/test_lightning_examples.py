"""Run the unmodified examples of lightning-habana, each in a separate process.

The current folder must be the source tree of lightning-habana; otherwise these tests are skipped. Its folder
``data`` must contain the digits and the text that the examples would download.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path("examples")
pytestmark = pytest.mark.skipif(
    not (EXAMPLES / "pytorch" / "mnist_trainer.py").is_file(),
    reason="The current folder is not a source tree of lightning-habana.",
)

#: Time limit of an example, in seconds.
PATIENCE = 600
#: Command lines of each example, which together use all of its options. Examples that start ranks or tenants
#: start two of them.
CALLS = {
    "pytorch/mnist_trainer.py": (
        "--verbose --run_types basic",
        "--verbose --run_types autocast",
        "--verbose --run_types HPUPrecisionPlugin",
        "--verbose --run_types MixedPrecisionPlugin",
        "--verbose --run_types recipe_caching",
        "--verbose --run_types fp8_training",
        "--verbose --run_types fp8_inference",
        "--verbose --run_types basic --devices 2",
        "--verbose --run_types multi_tenancy --num_tenants 2 --devices_per_tenant 1",
    ),
    "pytorch/hpu_graphs.py": (
        "train --mode capture_and_replay",
        "train --mode make_graphed_callables",
        "train --mode modulecacher",
        "inference --mode capture_and_replay",
        "inference --mode wrap_in_hpu_graph",
        "dynamicity --mode dynamic_control_flow",
        "dynamicity --mode dynamic_ops",
    ),
    "pytorch/language_model.py": (
        "--strategy FULL_SHARD",
        "--strategy SHARD_GRAD_OP",
        "--strategy NO_SHARD",
        "--strategy HYBRID_SHARD",
        "--strategy DDP",
    ),
    "fabric/image_classifier/train_fabric.py": ("--dry-run",),
}


def test_every_example_is_called() -> None:
    has = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    # mnist_sample.py is not called, because it only contains the model that mnist_trainer.py trains.
    assert has - {"pytorch/mnist_sample.py"} == set(CALLS)


@pytest.mark.parametrize(
    ("example", "arguments"), [(example, words) for example, calls in CALLS.items() for words in calls]
)
def test_an_example_runs(example: str, arguments: str) -> None:
    if "fabric" in example and not Path("Datasets").exists():
        # The example expects the digits in a different folder.
        shutil.copytree("data", "Datasets")
    command = [sys.executable, str(EXAMPLES / example), *arguments.split()]
    environment = dict(os.environ)
    if "HYBRID_SHARD" in arguments:
        # HYBRID_SHARD shards within a node, so the node must have as many devices as the example has ranks.
        environment["HABANA_VISIBLE_MODULES"] = "0,1"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-4000:]
    # The trainer prints which device it uses; Fabric does not.
    assert re.search(r"HPU available: True, using: [1-9]\d* HPUs", text) or "fabric" in example
