"""The files that ``conformance export`` writes for an out-of-tree device work in upstream's
test framework.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from conformance import cli
from tests.support import python_path
from tests.support.sample_deviating_leg import leg, row
from tests.support.sample_passing_leg import fixed_suite_digest, write_output_folder

#: A script that registers a device without kernels in torch, and runs upstream's generated tests with the
#: exported decorators. The tests need no kernels, because they create no tensors.
SCRIPT = """
import json, sys, types, unittest
import torch

torch.utils.rename_privateuse1_backend("mydev")
module = types.ModuleType("mydev")
module.is_available = module.is_initialized = lambda: True
module.device_count, module.current_device = (lambda: 1), (lambda: 0)
module._is_in_bad_fork, module.manual_seed_all = (lambda: False), (lambda seed: None)
torch._register_device_module("mydev", module)

import overrides
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase


class TestCommon(TestCase):
    @ops([info for info in op_db if info.full_name in ("add", "mul", "sub")], allowed_dtypes=(torch.float32,))
    def test_out(self, device, dtype, op):
        assert op.name == "sub", "deviates"


scope = {"TestCommon": TestCommon}
instantiate_device_type_tests(TestCommon, scope, only_for=("privateuse1", "mydev"))
result = unittest.TestResult()
for made in scope.values():
    unittest.defaultTestLoader.loadTestsFromTestCase(made).run(result)
found = (result.expectedFailures, result.skipped, result.failures)
words = [[test.id() for test, _ in each] for each in found]
print(json.dumps([*words, [test.id() for test in result.unexpectedSuccesses]]))
"""


def test_exported_files_apply_to_generated_tests_of_an_out_of_tree_device(tmp_path):
    """The exported decorators apply to the tests that upstream generates, and the exported list contains the
    names of these tests.
    """
    rows = [
        row("out/add@float32", "xfail", "value"),
        row("out/sub@float32", "xfail", "value"),
        row("out/mul@float32", "crash", "crash"),
    ]
    with fixed_suite_digest():
        write_output_folder(tmp_path / "run", leg(*rows, device="mydev"))
    for form, name in {"op-overrides": "overrides.py", "skips": "skips.txt"}.items():
        arguments = ["export", str(tmp_path / "run"), "--form", form, "-o", str(tmp_path / name)]
        assert cli.main(arguments) == 0
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": python_path(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    failed, skipped, red, passed = json.loads(done.stdout.splitlines()[-1])
    name = "__main__.TestCommonPRIVATEUSE1.test_out_{}_mydev_float32".format
    assert (failed, skipped, red, passed) == ([name("add")], [name("mul")], [], [name("sub")])
    listed = {line.partition(" ")[0] for line in (tmp_path / "skips.txt").read_text().splitlines()}
    assert {each.removeprefix("__main__.") for each in failed + skipped + passed} <= listed
