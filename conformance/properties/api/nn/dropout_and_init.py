"""Check dropout and the initialization of parameters."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn import init

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab, lab_work
from conformance.properties.api._exact_modules import ROUNDINGS

FEATURES = {2: F.dropout1d, 3: F.dropout1d, 4: F.dropout2d, 5: F.dropout3d}
#: Largest allowed deviation of a statistic, in standard deviations. A correct generator exceeds this
#: bound in about 2 of 10**9 checks.
SIGMAS = 6.0


@behaviour(
    "nn",
    level="core",
    capabilities=("random", "autograd"),
    must_detect=("value", "error"),
    page="generated/torch.nn.Dropout.html",
)
def ends_of_dropout(lab: Lab) -> None:
    """Dropout with ``p=0`` and dropout in eval mode return the input. Dropout with ``p=1`` returns zeros. A
    probability outside of [0, 1] raises an error.
    """
    x = lab.integers(3, 4, requires_grad=True)
    for training in (True, False):
        for p in (0.0, 1.0):
            y = F.dropout(x, p, training)
            lab.same(f"p={p}, training={training}", y)
            lab.same(f"gradient, p={p}, training={training}", torch.autograd.grad(y.sum(), x))
            with lab.parity("torch.native_dropout is undocumented"):
                lab.same(f"the operator, p={p}, training={training}", torch.native_dropout(x, p, training)[0])
    for make in (
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.AlphaDropout,
        nn.FeatureAlphaDropout,
    ):
        for inplace in (False, True):
            module = make(0.4, inplace).eval()
            z = (
                lab.integers(2, 3, 4)
                if make is nn.Dropout1d
                else lab.integers(2, 3, 2, 2)
                if make is not nn.Dropout3d
                else lab.integers(2, 3, 2, 2, 2)
            )
            lab.same(f"{make.__name__} in eval mode, in place {inplace}", (module(z), z))
        for p in (-0.1, 1.1):
            with lab.parity("No page says that a number outside of [0, 1] is an error"):
                lab.raises(f"{make.__name__} of {p}", lambda: make(p), ValueError)
    for p in (-0.1, 1.1):
        with lab.parity("No page says that a number outside of [0, 1] is an error"):
            lab.raises(f"a function of {p}", lambda: F.dropout(x, p), ValueError)
    lab.same("of nothing", F.dropout(lab.integers(0)).shape)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16"),
    capabilities=("random", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.Dropout.html",
)
def shares_of_dropout(lab: Lab) -> None:
    """Dropout zeroes elements with the given probability and scales the remaining elements. The backward pass
    uses the same mask. The result has the dtype, the shape and the memory format of the input.
    """
    p = 0.25
    base = torch.ones(2, 50, 8, 8, device=lab.device, dtype=lab.dtype)
    for layout_name, source in (
        ("contiguous", base),
        ("channels last", base.contiguous(memory_format=torch.channels_last)),
        ("with gaps", torch.ones(2, 50, 8, 16, device=lab.device, dtype=lab.dtype)[..., ::2]),
    ):
        for inplace in (False, True):
            x: Any = source.clone(memory_format=torch.preserve_format).requires_grad_()
            y = nn.Dropout(p, inplace)(x + 0)
            y.sum().backward()
            with lab_work():
                output = y.detach().float().cpu()
                gradient = x.grad.float().cpu()
                share = float((output == 0).double().mean())
            allowed = SIGMAS * math.sqrt(p * (1 - p) / output.numel())
            lab.holds(f"the share of zeros is near {p}: {layout_name}, {inplace}", abs(share - p) <= allowed)
            lab.holds(
                f"other elements are scaled: {layout_name}, {inplace}",
                bool(((output == 0) | ((output - 1 / (1 - p)).abs() < 0.01)).all()),
            )
            lab.holds(
                f"gradients have the mask of the output: {layout_name}, {inplace}",
                torch.equal(output, gradient),
            )
            lab.same(f"dtype and shape: {layout_name}, {inplace}", (y.dtype, y.shape))
            with lab.parity("No page says which memory format the result of dropout has"):
                lab.same(f"strides: {layout_name}, {inplace}", lab.strides(y))
    tiny = F.dropout(base[..., ::2], 1e-10)
    lab.same("a tiny probability drops nothing", tiny)


@behaviour(
    "nn",
    level="core",
    capabilities=("random",),
    must_detect=("warning", "error"),
    page="generated/torch.nn.Dropout1d.html",
)
def dropout_of_features(lab: Lab) -> None:
    """Feature dropout zeroes whole channels, with and without a batch dimension. An input with another number
    of dimensions issues a warning or raises an error.
    """
    for make, shape in (
        (nn.Dropout1d, (40, 20, 3)),
        (nn.Dropout2d, (40, 20, 2, 2)),
        (nn.Dropout3d, (40, 20, 2, 2, 2)),
        (nn.FeatureAlphaDropout, (40, 20, 2, 2)),
    ):
        for inplace in (False, True):
            y = make(0.5, inplace)(torch.ones(shape, device=lab.device))
            with lab_work():
                flat = y.cpu().flatten(2)
            lab.holds(
                f"{make.__name__}: a channel is dropped as a whole, in place {inplace}",
                bool((flat == flat[..., :1]).all()),
            )
            share = float((flat[..., 0] == flat.min()).double().mean())
            lab.holds(
                f"{make.__name__}: about half of the channels are dropped, in place {inplace}",
                abs(share - 0.5) <= SIGMAS * math.sqrt(0.25 / 800),
            )
    for make, size in ((nn.Dropout1d, (300, 4)), (nn.Dropout3d, (300, 2, 2, 2))):
        with lab_work():
            flat = make(0.5)(torch.ones(size, device=lab.device)).cpu().flatten(1)
        lab.holds(f"{make.__name__} without a batch drops whole channels", bool((flat == flat[:, :1]).all()))
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "Dropout1d of four dimensions",
            lambda: nn.Dropout1d()(lab.floats(1, 2, 2, 2)),
            match="(?i)2D or 3D",
        )
        lab.raises("Dropout1d of one", lambda: nn.Dropout1d()(lab.floats(2)), match="(?i)2D or 3D")
    lab.warns("Dropout2d of three", lambda: nn.Dropout2d()(lab.floats(1, 2, 2)), match="(?i)1D dropout")
    with lab.parity("The page states the expected shape, but not that another shape is accepted"):
        lab.warns("Dropout2d of five", lambda: nn.Dropout2d()(lab.floats(1, 2, 2, 2, 2)), match="5-D")
        lab.warns("Dropout2d of two", lambda: nn.Dropout2d()(lab.floats(1, 2)), match="2-D")
        lab.warns("Dropout3d of six", lambda: nn.Dropout3d()(lab.floats(1, 2, 2, 2, 2, 2)), match="6-D")
        lab.warns("Dropout3d of three", lambda: nn.Dropout3d()(lab.floats(1, 2, 2)), match="3-D")


@behaviour(
    "nn", capabilities=("random",), must_detect=("value",), page="generated/torch.nn.AlphaDropout.html"
)
def alpha_dropout(lab: Lab) -> None:
    """Alpha dropout preserves a mean of zero and a variance of one."""
    x = lab.put(torch.randn(20_000, generator=torch.Generator().manual_seed(3)))
    for p in (0.2, 0.5, 0.8):
        for make, source in ((nn.AlphaDropout, x), (nn.FeatureAlphaDropout, x.view(1000, 20, 1, 1))):
            y = make(p)(source)
            with lab_work():
                host = y.cpu().double()
            # The tolerance 0.05 exceeds four standard errors of the mean and of the deviation, because the
            # variance of a squared element is below ten.
            lab.holds(f"{make.__name__}, {p}: mean", abs(float(host.mean())) < 0.05)
            lab.holds(f"{make.__name__}, {p}: deviation", abs(float(host.std()) - 1) < 0.05)
    lab.same("in eval mode", nn.AlphaDropout(0.5).eval()(x))


@behaviour("nn", level="core", must_detect=("value", "error", "warning"), page="nn.init.html")
def constant_initialization(lab: Lab) -> None:
    """``constant_``, ``ones_``, ``zeros_``, ``eye_`` and ``dirac_`` fill their argument, record no graph, and
    return the argument.
    """
    shape: tuple[int, ...]
    for shape in ((3,), (3, 4), (2, 3, 1, 2)):
        x = torch.empty(shape, device=lab.device, requires_grad=True)
        lab.holds(f"constant_ returns its argument, {shape}", init.constant_(x, 2.5) is x and x.is_leaf)
        lab.expect(f"constant {shape}", x.detach() + 0, torch.full(shape, 2.5))
        lab.expect(f"ones {shape}", init.ones_(x).detach() + 0, torch.ones(shape))
        lab.expect(f"zeros {shape}", init.zeros_(x).detach() + 0, torch.zeros(shape))
    lab.expect("eye", init.eye_(torch.empty(2, 3, device=lab.device)), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for groups in (1, 3):
        for dims, call in ((1, F.conv1d), (2, F.conv2d), (3, F.conv3d)):
            weight = init.dirac_(torch.empty(9, 3, *(3,) * dims, device=lab.device), groups)
            lab.same(f"dirac_ with {groups} groups, {dims} dimensions", weight)
            x = lab.integers(2, 3, *(5,) * dims)
            y = call(x, weight)
            inner = x[tuple([slice(None)] * 2 + [slice(1, -1)] * dims)]
            for part in range(groups):
                start = part * 9 // groups
                lab.expect(
                    f"a dirac_ convolution keeps channels, group {part} of {groups}, {dims} dimensions",
                    y[:, start : start + 3],
                    inner.cpu(),
                    roundings=ROUNDINGS,
                    matrix=True,
                )
            if groups == 1:
                lab.expect(f"other output channels are zero, {dims} dimensions", y[:, 3:].abs().sum(), 0.0)
    for shape in ((3,), (2, 2, 2)):
        with lab.parity("The page states the expected shape, but not that another shape is an error"):
            lab.raises(
                f"eye of {shape}", lambda: init.eye_(torch.empty(shape, device=lab.device)), ValueError
            )
            lab.raises(
                f"sparse of {shape}",
                lambda: init.sparse_(torch.empty(shape, device=lab.device), 0.1),
                ValueError,
            )
    for shape in ((3,), (2, 2), (1,) * 6):
        with lab.parity("The page states the expected shape, but not that another shape is an error"):
            lab.raises(
                f"dirac of {shape}",
                lambda: init.dirac_(torch.empty(shape, device=lab.device)),
                ValueError,
            )
    with lab.parity("No page says that groups which do not divide the channels are an error"):
        lab.raises(
            "dirac_ with groups that do not divide the channels",
            lambda: init.dirac_(torch.empty(4, 2, 3, device=lab.device), 3),
            ValueError,
        )
    for shape in ((), (3,)):
        for call in (init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_):  # type: ignore[assignment]
            with lab.parity("No page says that fewer than two dimensions are an error"):
                lab.raises(
                    f"{call.__name__} of {shape}",
                    lambda: call(torch.empty(shape, device=lab.device)),  # type: ignore[call-overload]
                    ValueError,
                )
    for call in (init.kaiming_uniform_, init.kaiming_normal_):  # type: ignore[assignment]
        lab.warns(
            f"{call.__name__} of nothing",
            lambda: call(torch.empty(0, 1, device=lab.device)),  # type: ignore[call-overload]
            match="(?i)no-op",
        )
    lab.warns(
        "init.normal without an underscore",
        lambda: init.normal(torch.empty(2, 2, device=lab.device)),
        category=FutureWarning,
        match="(?i)deprecated",
    )


@behaviour("nn", must_detect=("error",), page="nn.init.html")
def gains_of_nonlinearities(lab: Lab) -> None:
    """``calculate_gain`` returns the gain of each nonlinearity. Unknown names, and slopes that are not
    numbers, raise an error.
    """
    for name, gain in (
        ("linear", 1.0),
        ("conv2d", 1.0),
        ("conv_transpose3d", 1.0),
        ("sigmoid", 1.0),
        ("tanh", 5 / 3),
        ("relu", math.sqrt(2)),
        ("selu", 0.75),
    ):
        lab.holds(f"the gain of {name} is {gain:.3f}", abs(init.calculate_gain(name) - gain) < 1e-12)  # type: ignore[arg-type]
    slope: Any
    for slope in (None, 0, 0.01, 10):
        expected = math.sqrt(2 / (1 + (0.01 if slope is None else slope) ** 2))
        lab.holds(
            f"the gain of leaky_relu is correct, slope {slope}",
            abs(init.calculate_gain("leaky_relu", slope) - expected) < 1e-12,
        )
    for slope in (True, [1], {"a": 1}):
        with lab.parity("No page says that this call is an error"):
            lab.raises(f"a slope of {slope}", lambda: init.calculate_gain("leaky_relu", slope), ValueError)
    with lab.parity("No page says that an unknown name is an error"):
        lab.raises("an unknown name", lambda: init.calculate_gain("garbage"), ValueError)  # type: ignore[arg-type]


def _check_uniform(lab: Lab, name: str, tensor: torch.Tensor, low: float, high: float) -> None:
    """Check that the mean, variance, range and quartiles of a tensor match a uniform distribution."""
    with lab_work():
        host = tensor.detach().cpu().double().flatten()
    count, width = host.numel(), high - low
    lab.holds(
        f"{name} lies in the expected range", bool((host >= low - 1e-6).all() and (host <= high + 1e-6).all())
    )
    lab.holds(
        f"{name} has the expected mean",
        abs(float(host.mean()) - (low + high) / 2) < SIGMAS * width / math.sqrt(12 * count),
    )
    # If ``count`` values are uniformly distributed, their variance is itself random. The variance of this
    # statistic is width**4 / (180 * count).
    lab.holds(
        f"{name} has the expected variance",
        abs(float(host.var()) - width**2 / 12) < SIGMAS * width**2 / math.sqrt(180 * count),
    )
    quarters = ((host - low) / width * 4).clamp(0, 3.999).long().bincount(minlength=4).double() / count
    lab.holds(
        f"{name} has equal shares in all quarters of the range",
        float((quarters - 0.25).abs().max()) < SIGMAS * math.sqrt(3 / 16 / count),
    )


def _check_normal(lab: Lab, name: str, tensor: torch.Tensor, mean: float, deviation: float) -> None:
    """Check that the mean and variance of a tensor, and its share of values within one standard deviation,
    match a normal distribution.
    """
    with lab_work():
        host = tensor.detach().cpu().double().flatten()
    count = host.numel()
    lab.holds(
        f"{name} has the expected mean",
        abs(float(host.mean()) - mean) < SIGMAS * deviation / math.sqrt(count),
    )
    lab.holds(
        f"{name} has the expected variance",
        abs(float(host.var()) / deviation**2 - 1) < SIGMAS * math.sqrt(2 / count),
    )
    inside = float(((host - mean).abs() < deviation).double().mean())
    lab.holds(
        f"the expected share of {name} is within one standard deviation",
        abs(inside - 0.682689) < SIGMAS * math.sqrt(0.2166 / count),
    )


@behaviour("nn", level="core", capabilities=("random",), must_detect=("value",), page="nn.init.html")
def random_initialization(lab: Lab) -> None:
    """The random functions of ``nn.init`` draw from the documented distributions. Their scale depends on
    fan-in, fan-out and gain.
    """
    for shape in ((2000,), (50, 40), (20, 10, 3, 4)):
        x = torch.empty(shape, device=lab.device)
        _check_uniform(lab, f"uniform {shape}", init.uniform_(x, -2.0, 3.0), -2.0, 3.0)
        _check_normal(lab, f"normal {shape}", init.normal_(x, 1.0, 2.0), 1.0, 2.0)
        if len(shape) == 1:
            continue
        receptive = 12 if len(shape) == 4 else 1
        fans = {"fan_in": shape[1] * receptive, "fan_out": shape[0] * receptive}
        for gain in (1.0, 0.5):
            spread = gain * math.sqrt(2 / sum(fans.values()))
            _check_uniform(
                lab,
                f"xavier uniform {shape}, {gain}",
                init.xavier_uniform_(x, gain),
                -spread * math.sqrt(3),
                spread * math.sqrt(3),
            )
            _check_normal(lab, f"xavier normal {shape}, {gain}", init.xavier_normal_(x, gain), 0.0, spread)
        for mode, fan in fans.items():
            for slope in (0.0, 1.5):
                spread = math.sqrt(2 / ((1 + slope**2) * fan))
                bound = spread * math.sqrt(3)
                _check_uniform(
                    lab,
                    f"kaiming uniform {shape}, {mode}, {slope}",
                    init.kaiming_uniform_(x, slope, mode=mode),  # type: ignore[arg-type]
                    -bound,
                    bound,
                )
                _check_normal(
                    lab,
                    f"kaiming normal {shape}, {mode}, {slope}",
                    init.kaiming_normal_(x, slope, mode=mode),  # type: ignore[arg-type]
                    0.0,
                    spread,
                )
    few = init.sparse_(torch.empty(100, 30, device=lab.device), 0.2, 0.5)
    with lab_work():
        host = few.cpu()
    lab.holds(
        "each column of sparse_ has the requested number of zeros", bool(((host == 0).sum(0) == 20).all())
    )
    _check_normal(lab, "nonzero elements of sparse_", host[host != 0], 0.0, 0.5)
    for shape in ((3, 4), (4, 3), (20, 2, 3, 4), (2, 3, 4, 5)):
        for gain in (1.0, 1.5):
            flat = init.orthogonal_(torch.empty(shape, device=lab.device), gain).flatten(1)
            square = flat @ flat.t() if flat.shape[0] <= flat.shape[1] else flat.t() @ flat
            lab.expect(
                f"orthogonal {shape}, {gain}",
                square,
                torch.eye(len(square)) * gain**2,
                roundings=64,
                matrix=True,
            )
    lab.expect("at last", init.ones_(x).sum(), 2400.0)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float16", "bfloat16"),
    capabilities=("random",),
    must_detect=(),
    page="nn.init.html",
)
def truncated_normal_initialization(lab: Lab) -> None:
    """``trunc_normal_`` draws from the truncated normal distribution: its values are within the bounds, have
    the correct mean and seldom repeat.
    """
    for mean, deviation, low, high in (
        (0.0, 1.0, -2.0, 2.0),
        (0.0, 1.0, 2.0, 3.0),
        (0.0, 0.1, -2.0, 2.0),
        (1.0, 0.5, 0.5, 3.0),
    ):
        x = init.trunc_normal_(
            torch.empty(10_000, device=lab.device, dtype=lab.dtype), mean, deviation, low, high
        )
        with lab_work():
            host = x.cpu().double()
        label = f"N({mean}, {deviation}) in [{low}, {high}]"
        lab.holds(
            f"all values are within the bounds: {label}", bool((host >= low).all() and (host <= high).all())
        )
        a, b = (low - mean) / deviation, (high - mean) / deviation

        def normal_density(z: float) -> float:
            return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

        def normal_distribution_function(z: float) -> float:
            return 0.5 * (1 + math.erf(z / math.sqrt(2)))

        mass = normal_distribution_function(b) - normal_distribution_function(a)
        expected_mean = mean + deviation * (normal_density(a) - normal_density(b)) / mass
        # Rounding to a dtype with few bits moves each value by at most half a unit. ``slack`` allows for this
        # shift of the mean.
        slack = float(torch.finfo(lab.dtype).eps) * max(abs(low), abs(high))
        lab.holds(
            f"the mean is correct: {label}",
            abs(float(host.mean()) - expected_mean) < SIGMAS * deviation / 100 + slack,
        )
        unique = host.unique().numel()
        floor = {torch.float32: 5000, torch.float16: 400, torch.bfloat16: 50}[lab.dtype]
        with lab.parity("No page says how many different values are drawn"):
            lab.holds(f"values seldom repeat: {label}", unique > floor)
        if deviation == 0.1:
            lab.holds(f"no value is at a bound: {label}", not bool(((host == low) | (host == high)).any()))
    lab.expect("at last", init.zeros_(x).sum(), 0.0)
