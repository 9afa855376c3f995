"""The third-party programs: requirements, test commands, and tests that cannot pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class ProgramTestRun:
    """One test command of a client (third-party program): its name, arguments and environment variables."""

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Whether each test runs in a separate process. This is required if a test starts ranks, because each
    #: rank repeats the command line of the test's process.
    separate_processes: bool = False
    #: Whether a failed test is retried in a separate process. Tests of one process affect each other through
    #: process groups, ports and variables.
    retry_alone: bool = False


@dataclasses.dataclass(frozen=True)
class ThirdPartyProgram:
    """A third-party program, its requirements besides torch, and its tests.

    In requirements and arguments, ``{backend}`` denotes the folder of the reference device.
    """

    name: str
    version: str
    requirements: tuple[str, ...]
    runs: tuple[ProgramTestRun, ...]
    #: Whether the client's source tree is required (option ``--tree``), because its own tests run. Otherwise
    #: this project's tests run, which import the installed client.
    has_tree: bool = True
    #: Requirements that are built from source, because their version is not in the index.
    sources: tuple[str, ...] = ()
    #: Whether the tests need a folder ``data`` with images in MNIST's file format and with a text file. The
    #: session generates both with random content.
    needs_data: bool = False
    #: The Python and torch versions that the client requires; by default the session's versions.
    python: str = ""
    torch: str = ""
    #: Packages that a CUDA build of torch installs and that break the client without a GPU.
    excluded_packages: tuple[str, ...] = ()
    #: Whether ``import torch`` must load the device, because the client does not import the device itself.
    needs_autoload: bool = False
    #: Whether the client's source tree is installed. Otherwise only its tests are used.
    is_installed: bool = True
    #: Environment variables for the build of the requirements.
    build_variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The number of the client's own tests, or 0. If the number is not 0, the page lists the client's tests
    #: that pass in no run.
    own_test_count: int = 0
    #: Tests that cannot pass: patterns of the text "test: failure text", and the reason of each pattern.
    known_failures: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _make_run_of_project_tests(name: str, file: str, **variables: str) -> ProgramTestRun:
    """Return a run of the test file ``reference_backend/tests/third_party/<file>``."""
    return ProgramTestRun(
        name, (f"{{backend}}/tests/third_party/{file}", "-q"), {"PT_HPU_LAZY_MODE": "0", **variables}
    )


_QUIET = ("-W", "ignore::FutureWarning", "-q")
_LIGHTNING = ("--hpus", "1", *_QUIET)
#: Variables for lightning-habana. The client requires the DeepSpeed of Gaudi software 1.18. With software
#: 1.17 or later it also requires neural_compressor. The last variable lets torch 2.6 and later load
#: checkpoints that contain DeepSpeed's classes.
_OF_LIGHTNING = {
    "PT_HPU_LAZY_MODE": "0",
    "HPU_REFERENCE_PROFILER_ACTIVITY": "replaced",
    "HPU_REFERENCE_SMI_VERSION": "1.18.0",
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
}
THIRD_PARTY_PROGRAMS = (
    ThirdPartyProgram(
        "lightning-habana",
        "1.7.0",
        (
            "setuptools<81", "wheel", "lightning==2.4.0", "torchmetrics<1.5", "scikit-learn<1.6", "pytest<9",
            "pytest-forked==1.6.0", "pytest-cov", "jsonargparse[signatures]", "torchvision==0.21.0",
            "tensorboard", "requests", "neural-compressor-pt==3.4", "habana-pyhlml",
        ),
        (
            ProgramTestRun(
                "one device",
                ("tests", *_LIGHTNING, "-m", "not standalone and not standalone_only"),
                _OF_LIGHTNING,
                retry_alone=True,
            ),
            ProgramTestRun(
                "two ranks",
                ("tests", "--hpus", "2", *_QUIET, "-m", "standalone or standalone_only"),
                _OF_LIGHTNING,
                separate_processes=True,
            ),
            # The next two runs contain tests that the client skips on Gaudi 2, the default simulated device.
            ProgramTestRun(
                "one device, Gaudi 3",
                ("tests/test_pytorch/strategies/test_deepspeed.py", *_LIGHTNING,
                 "-k", "test_lightning_model and -3]"),
                {**_OF_LIGHTNING, "HPU_REFERENCE_DEVICE_NAME": "GAUDI3"},
            ),
            ProgramTestRun(
                "one device, first Gaudi",
                ("tests/test_pytorch/test_precision.py", *_LIGHTNING, "-k", "not_supported_on_gaudi"),
                # neural_compressor does not support the first Gaudi. With software 1.16, the client does not
                # require neural_compressor.
                {**_OF_LIGHTNING, "HPU_REFERENCE_DEVICE_NAME": "GAUDI",
                 "HPU_REFERENCE_SMI_VERSION": "1.16.0"},
            ),
            ProgramTestRun(
                "autocast lists",
                ("tests/test_pytorch/test_precision.py", *_LIGHTNING, "--runxfail",
                 "-k", "test_autocast_operators_override"),
                {**_OF_LIGHTNING, "LOWER_LIST": "tests/test_pytorch/ops_fp32.txt",
                 "FP32_LIST": "tests/test_pytorch/ops_bf16.txt"},
            ),
            _make_run_of_project_tests(
                "its examples, one and two ranks", "test_lightning_examples.py", **_OF_LIGHTNING
            ),
            _make_run_of_project_tests("programs of its guide", "test_lightning_guide.py", **_OF_LIGHTNING),
        ),
        own_test_count=392,
        sources=("deepspeed==0.14.4",),
        needs_data=True,
        # The client uses results of importlib.resources.path as paths, which works up to Python 3.10. Torch
        # 2.6 is the newest torch whose CUDA build also works with this Python, and the torch of the public
        # Gaudi software.
        python="3.10",
        torch="2.6.0",
        excluded_packages=("triton",),
        build_variables={
            "DS_BUILD_OPS": "0",
            "DS_ACCELERATOR": "cpu",
            "DS_BUILD_STRING": "+hpu.synapse.v1.18.0",
        },
        known_failures={
            r"test_compiled_model_\w*log_metric\w*: [\s\S]*Guard check failed": (
                "torch's Dynamo cannot trace lightning's log"
            ),
            r"deepspeed_fp8_inference_accuracy\S*: [\s\S]*(JSONDecodeError|inc_output/measure)": (
                "both ranks write one configuration file at the same time, so that no measurements remain"
            ),
            r"mat1 and mat2 must have the same dtype": "a product of mixed dtypes, which torch refuses",
            r"test_hpu_precision_long_type.*DID NOT RAISE": "the test expects that int64 is refused",
            r"test_hpu_parallel_precision_accuracy": (
                "the test requires bfloat16 losses on one and on two ranks to agree to 1e-4; they differ by "
                "less than one bfloat16 step"
            ),
        },
    ),
    ThirdPartyProgram(
        "gaudi-pytorch-bridge",
        "1.19.0",
        (
            "setuptools>=77", "wheel", "numpy<2", "scipy", "pytest", "pytest-xdist", "torchvision==0.28.0",
            "habana-pyhlml",
        ),
        tuple(
            ProgramTestRun(
                f"its tests, {mode}",
                ("tests/pytest_working", "--mode", mode, "-n", "2", "-q", "--continue-on-collection-errors"),
                {"PT_HPU_LAZY_MODE": "0"},
            )
            for mode in ("eager", "compile")
        ),
        is_installed=False,
        known_failures={
            r"test_unique2?\b[\s\S]*NoneType": "the test expects None for an output that was not requested",
            r"test_add_relu[\s\S]*INTERNAL ASSERT FAILED[\s\S]*BinaryOps": (
                "torch's CPU kernel lacks the dtype"
            ),
            r"(test_hpu_lerp|test_uniform|test_randint)[\s\S]*not implemented for": (
                "torch's CPU kernel lacks the dtype"
            ),
            r"test_huge_tensor[\s\S]*OutOfMemory": "the tensor is larger than the simulated memory",
            r"upsample_bi\w+_2d_backward_node_params[\s\S]*failed to match any schema": (
                "the call does not fit the schema in torch 2.13"
            ),
        },
    ),
    ThirdPartyProgram(
        "DeepSpeed",
        "0.19.5",
        ("setuptools", "wheel", "numpy", "pytest", "deepspeed==0.19.5"),
        (_make_run_of_project_tests("two ranks", "test_deepspeed.py"),),
        has_tree=False,
        build_variables={"DS_BUILD_OPS": "0"},
    ),
    ThirdPartyProgram(
        "accelerate",
        "1.15.0",
        ("numpy", "pytest", "accelerate==1.15.0", "torchdata"),
        (_make_run_of_project_tests("its scripts, one and two ranks", "test_accelerate.py"),),
        has_tree=False,
    ),
    ThirdPartyProgram(
        "transformers",
        "5.24.0",
        ("setuptools>=77", "wheel", "numpy", "pytest", "transformers==5.24.0", "accelerate==1.15.0"),
        (_make_run_of_project_tests("Trainer, one and two ranks", "test_transformers.py"),),
        has_tree=False,
        needs_autoload=True,
    ),
    ThirdPartyProgram(
        "bitsandbytes",
        "0.50.2",
        ("numpy", "pytest", "bitsandbytes==0.50.2"),
        (_make_run_of_project_tests("4-bit weights", "test_bitsandbytes.py"),),
        has_tree=False,
    ),
    ThirdPartyProgram(
        "torchtitan",
        "0.2.2",
        ("setuptools>=77", "wheel", "numpy", "pytest", "torchtitan==0.2.2", "triton"),
        (_make_run_of_project_tests("its debug model, two ranks", "test_torchtitan.py"),),
        has_tree=False,
        needs_autoload=True,
    ),
    ThirdPartyProgram(
        "optimum-habana",
        "1.21.2",
        (
            "setuptools>=77,<81", "wheel", "numpy<2", "pytest", "optimum-habana==1.21.2",
            "torchvision==0.28.0", "peft==0.17.0", "trl==0.9.6", "rich", "datasets==3.6.0", "pyarrow<20",
            "habana-pyhlml",
        ),
        (_make_run_of_project_tests("imports and trainer", "test_optimum.py"),),
        has_tree=False,
        needs_autoload=True,
    ),
)  # fmt: skip
