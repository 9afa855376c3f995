"""Test lazy mode in separate processes. `lazy_start` enables lazy mode in any build, for tests."""

from __future__ import annotations

import pytest

START = """
import sys, torch, habana_frameworks.torch as ht
C, hpu = ht._C, ht.hpu
C.lazy_start(MODE, 5)
def pending():
    return C.lazy_pending()
def flushes():
    return C.lazy_statistics()['flushes']
def stats():
    return C.recipe_cache_stats()
"""


@pytest.fixture
def lazy(output_of):
    """Return a function that runs code in lazy mode and returns the printed lines."""

    def run_lazily(code, mode=1, **environment):
        return output_of(START.replace("MODE", str(mode)) + code, timeout=120, **environment).splitlines()

    return run_lazily


KNOWN = """
x = torch.arange(6.0, device='hpu').reshape(2, 3)
y = torch.ones(2, 3, device='hpu')
def work():
    return (x + y) * 2
for _ in range(2):
    work().cpu()
stream = hpu.Stream()
C.lazy_flush(True)
"""

TRIGGERS = {
    "lazy_flush": "C.lazy_flush(False)",
    "item": "z[0, 0].item()",
    "cpu": "z.cpu()",
    "to": "z.to('cpu')",
    "print": "str(z)",
    "bool": "bool((z > 0).all())",
    "tolist": "z.tolist()",
    "nonzero": "z.nonzero()",
    "masked_select": "z.masked_select(x > 1)",
    "unique": "torch.unique(z)",
    "equal": "torch.equal(z, z)",
    "event.record": "hpu.Event().record()",
    "record_event": "stream.record_event()",
    "stream switch": "hpu.set_stream(stream)",
    "synchronize": "hpu.synchronize()",
    "stream.synchronize": "hpu.current_stream().synchronize()",
    "accelerator": "torch.accelerator.synchronize()",
    "resize": "z.untyped_storage().resize_(10 * 24)",
}


def test_calls_that_launch_a_graph(lazy):
    code = KNOWN
    for name, trigger in TRIGGERS.items():
        code += (
            "z = work()\n"
            "before, count = pending(), flushes()\n"
            f"{trigger}\n"
            f"print(repr({name!r}), before >= 2, pending() == 0, flushes() > count, sep='|')\n"
            "hpu.set_stream(hpu.default_stream()); C.lazy_flush(True)\n"
        )
    lines = lazy(code)
    assert lines == [f"{name!r}|True|True|True" for name in TRIGGERS]


KEEPS = {
    "metadata": "z.shape, z.stride(), z.dtype, z.data_ptr()",
    "view": "z[0].t()",
    "query": "hpu.Event().query()",
    "other tensor from the host": "torch.ones(70000).to('hpu')",
    "free": "del z",
    "same stream": "hpu.set_stream(hpu.current_stream())",
}


def test_calls_that_do_not_launch_a_graph(lazy):
    code = KNOWN
    for name, action in KEEPS.items():
        code += (
            "z = work()\n"
            "before, count = pending(), flushes()\n"
            f"{action}\n"
            f"print(repr({name!r}), before >= 2, pending() >= before, flushes() == count, sep='|')\n"
            "C.lazy_flush(True)\n"
        )
    assert lazy(code) == [f"{name!r}|True|True|True" for name in KEEPS]


def test_limits(lazy):
    lines = lazy(
        KNOWN
        + """
C.lazy_set_limits(5, False)
for count in range(1, 13):
    x.add_(0)
    print(pending(), end=' ')
C.lazy_flush(True)
C.lazy_set_limits(3, True)
for _ in range(3):
    x.add_(0)
print(pending(), C.engine_counters()['pending'])
try:
    C.lazy_set_limits(0, False)
except RuntimeError as error:
    print('at least 1' in str(error))
"""
    )
    assert lines == ["1 2 3 4 0 1 2 3 4 0 1 2 0 0", "True"]


def test_mark_step(output_of):
    """`mark_step` ends a step if the environment enables lazy mode."""
    code = """
import torch, habana_frameworks.torch as ht, habana_frameworks.torch.core as htcore
import habana_frameworks.torch.utils.internal as internal
ht._C.lazy_start(1)
import habana_frameworks.torch.core.step_closure as steps
steps.is_lazy = lambda: True
x = torch.ones(4, device='hpu')
for _ in range(3):
    x.add_(1)
    before = ht._C.lazy_pending()
    htcore.mark_step()
    print(before > 0, ht._C.lazy_pending())
print(x.tolist())
"""
    assert output_of(code).splitlines() == ["True 0"] * 3 + ["[4.0, 4.0, 4.0, 4.0]"]


def test_recipes_are_reused(lazy):
    lines = lazy("""
x = torch.rand(8, 8, device='hpu')
C.lazy_flush(True)
def step():
    y = (x @ x + 1).relu()
    z = (y * 2).sum()
    C.lazy_flush(True)
    return z
step()
before = stats()
for _ in range(10):
    step()
after = stats()
print(after['hits'] - before['hits'], after['misses'] - before['misses'])
C.recipe_cache_clear()
print(stats()['entries'])
expected = step().item()
host = (x.cpu() @ x.cpu() + 1).relu().mul(2).sum().item()
print(stats()['misses'] > after['misses'], step().item() == expected == host)
C.recipe_cache_set_limit(1)
for size in range(3, 9):
    torch.ones(size, device='hpu').sum().item()
print(stats()['entries'])
""")
    hits, misses = map(int, lines[0].split())
    assert hits >= 9 and misses <= 1 and hits + misses == 10
    assert lines[1:] == ["0", "True True", "1"]


TRAIN = """
import hashlib
def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().cpu().contiguous().numpy().tobytes())
    return h.hexdigest()[:16]

def model_of(name):
    torch.manual_seed(1)
    if name == 'mlp':
        return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                                   torch.nn.Dropout(0.3), torch.nn.Linear(16, 4)), (8, 6)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4),
                               torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                               torch.nn.Linear(36, 4)), (8, 2, 8, 8)

def train(name, optimizer, autocast, steps=6):
    model, shape = model_of(name)
    model = model.to('hpu')
    make = {'sgd': lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
            'adam': lambda p: torch.optim.Adam(p, 0.01),
            'adamw': lambda p: torch.optim.AdamW(p, 0.01, foreach=True)}
    optimizer = make[optimizer](model.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    torch.manual_seed(2)
    losses = []
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        x = torch.rand(shape, generator=g).to('hpu')
        y = torch.randint(0, 4, (8,), generator=g).to('hpu')
        optimizer.zero_grad()
        with torch.autocast('hpu', torch.bfloat16, enabled=autocast):
            loss = torch.nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        C.lazy_flush(False) if LAZY and step % 3 != 2 else None
        optimizer.step()
        schedule.step()
        C.lazy_flush(False) if LAZY else None
        losses.append(loss.detach())
    return digest([*losses, *model.state_dict().values()])

for name in ('mlp', 'conv'):
    for optimizer in ('sgd', 'adam', 'adamw'):
        for autocast in (False, True):
            print(name, optimizer, autocast, train(name, optimizer, autocast))
print(torch.rand(4, device='hpu').tolist(), file=sys.stderr)
"""


@pytest.mark.nightly("each case trains a model twice", every=2)
@pytest.mark.parametrize("mode", [1, 2, 3])
def test_training_gives_the_bits_of_eager_mode(lazy, output_of, mode):
    eager = START.replace("C.lazy_start(MODE, 5)", "LAZY = False") + TRAIN
    expected = output_of(eager, timeout=120).splitlines()
    assert len(expected) == 12
    assert len({line.split()[-1] for line in expected}) == 12
    assert lazy("LAZY = True\n" + TRAIN, mode=mode) == expected


BOTH = """
def check(name, found):
    flat = [t.detach().cpu() for t in found]
    print(name, [(t.flatten().tolist(), list(t.shape), t.stride()) for t in flat])
"""

PROGRAMS = {
    "random numbers": """
torch.manual_seed(4)
other = torch.Generator('hpu').manual_seed(9)
for turn in range(4):
    a = torch.rand(5, device='hpu')
    b = torch.randn(5, device='hpu', generator=other)
    c = torch.nn.functional.dropout(a, 0.5)
    unused = torch.rand(3, device='hpu')
    del unused
    d = torch.randperm(5, device='hpu')
    e = torch.bernoulli(a)
    FLUSH
    check(turn, (a, b, c, d, e))
state = torch.hpu.get_rng_state()
a = torch.rand(3, device='hpu')
torch.hpu.set_rng_state(state)
check('state', (a, torch.rand(3, device='hpu')))
""",
    "views and writes": """
for turn in range(5):
    x = torch.arange(24.0).reshape(4, 6).add(turn).to('hpu')
    v = x[1:3, ::2]
    w = x.t()
    v.mul_(2)
    w[0].add_(100)
    y = v + 1
    x[3] = y.sum()
    w.diagonal().zero_()
    flat = x.view(-1)[5:9]
    flat.copy_(y.flatten()[:4])
    z = torch.cat((v.flatten(), w[2]))
    FLUSH
    check(turn, (x, v, w, y, z, flat))
""",
    "frees": """
keep = []
for turn in range(6):
    x = torch.full((50,), float(turn), device='hpu')
    y = x * 2
    z = y + 1
    del y
    if turn % 2:
        del x
    FLUSH
    a = z * 3
    del z
    b = a.sum() + a[0]
    keep.append(b)
    FLUSH
    c = torch.zeros(50, device='hpu') + a
    del a
    check(turn, (c, b))
    del b, c
check('kept', keep)
""",
    "an input freed while recording": """
for turn in range(6):
    a = torch.arange(2000.0, device='hpu') + turn
    FLUSH
    b = torch.arange(2000.0, device='hpu') + 1
    FLUSH
    t = b + 1
    o = a * t
    del a, t
    FLUSH
    check(turn, (o,))
    del o
""",
    "copies from the host": """
x = torch.zeros(8, device='hpu')
for turn in range(6):
    x.add_(1)
    y = x * 2
    x.copy_(torch.full((8,), float(turn)))
    z = x + y
    fresh = torch.full((8,), turn + 0.5).to('hpu')
    x.add_(fresh)
    fresh.copy_(torch.full((8,), -1.0))
    x[2:4].copy_(torch.tensor([5.0, 6.0]))
    w = x - fresh
    FLUSH
    check(turn, (x, y, z, w, fresh))
""",
    "copies from pinned memory": """
for turn in range(6):
    x = torch.empty(8, device='hpu')
    host = torch.full((8,), float(turn), pin_memory=True)
    x.copy_(host, non_blocking=True)
    x.copy_(torch.full((8,), turn + 10.0))
    y = x + 1
    x.copy_(host, non_blocking=True)
    z = y + x
    back = torch.empty(8, pin_memory=True)
    back.copy_(z, non_blocking=True)
    hpu.synchronize()
    check(turn, (x, y, z, back))
""",
    "numbers that change": """
x = torch.ones(4, device='hpu')
for turn in range(8):
    number = 1.0 / (turn + 1)
    y = x * number + turn
    z = torch.add(x, y, alpha=number)
    z.add_(torch.tensor(number, dtype=torch.float64))
    w = torch.where(z > number, z, number)
    p = torch.full((3,), number, device='hpu').pow(turn % 3)
    q = x.clamp(max=number)
    torch._foreach_mul_([z, w], number)
    torch._foreach_add_([z, w], [number, 2.0])
    FLUSH
    check(turn, (y, z, w, p, q))
""",
    "shapes in turns": """
for turn in range(12):
    size = (3, 5, 3, 4)[turn % 4]
    x = torch.arange(float(size), device='hpu') + turn
    y = (x[:, None] * x[None]).sum(turn % 2)
    z = torch.nn.functional.pad(y, (0, size))
    FLUSH
    check(turn, (x, y, z))
""",
    "autograd": """
w = torch.ones(4, 4, device='hpu', requires_grad=True)
for turn in range(5):
    x = torch.full((4, 4), turn + 1.0, device='hpu')
    loss = ((x @ w).sigmoid() * x).sum()
    if turn % 2:
        loss = loss + (w * w).sum()
    loss.backward()
    FLUSH
    check(turn, (loss, w.grad))
    with torch.no_grad():
        w -= 0.1 * w.grad
    if turn == 2:
        w.grad = None
""",
    "results that share memory": """
for turn in range(5):
    x = torch.arange(12.0, device='hpu').reshape(3, 4) + turn
    a, b = x.split(2, 1)
    y = x.sin() if turn % 2 else x
    a.add_(1)
    s = torch.topk(x, 2)
    m = x.max(0)
    c = y.t()
    FLUSH
    c.mul_(2)
    check(turn, (x, a, b, y, c, *s, *m))
""",
    "streams": """
side = hpu.Stream()
x = torch.zeros(5, device='hpu')
for turn in range(5):
    x.add_(1)
    side.wait_stream(hpu.current_stream())
    with hpu.stream(side):
        y = x * 3
        e = side.record_event()
    hpu.current_stream().wait_event(e)
    x.add_(y)
    z = x + 1
    check(turn, (x, z))
""",
    "threads": """
import threading
results = {}
def work(index):
    x = torch.full((6,), float(index), device='hpu')
    for turn in range(20):
        x = x * 1.5 + index
        if turn % 7 == 0:
            FLUSH
    results[index] = x.cpu()
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
check('threads', [results[i] for i in range(4)])
""",
}


RUN_PROGRAMS = """
for name, code in PROGRAMS.items():
    print('#', name)
    exec(code, dict(globals()))
"""
VARIANTS = {"flushed": (1, "C.lazy_flush(False)"), "not flushed": (1, "pass"), "at random": (3, "pass")}


@pytest.fixture(scope="module")
def outputs(output_of):
    """Return a function that runs all programs in one process, in a variant of lazy mode or in eager mode.

    The function returns the printed lines of each program, by the program's name.
    """
    outputs_by_variant = {}

    def run_variant(variant):
        if variant not in outputs_by_variant:
            mode, flush = VARIANTS.get(variant, (0, "pass"))
            start = START.replace("C.lazy_start(MODE, 5)", f"C.lazy_start({mode}, 5)" if mode else "")
            programs = {name: code.replace("FLUSH", flush) for name, code in PROGRAMS.items()}
            text = output_of(f"{start}{BOTH}PROGRAMS = {programs!r}\n{RUN_PROGRAMS}", timeout=120)
            parts = [part.split("\n", 1) for part in ("\n" + text).split("\n# ")[1:]]
            outputs_by_variant[variant] = {name: lines.splitlines() for name, lines in parts}
        return outputs_by_variant[variant]

    return run_variant


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_the_same_as_in_eager_mode(outputs, name, variant):
    expected = outputs("eager")[name]
    assert expected
    assert outputs(variant)[name] == expected


@pytest.mark.parametrize("made", ["torch.empty(8, device='hpu')", "torch.ones(8, device='hpu')"])
def test_a_blocking_copy_runs_after_a_queued_copy(lazy, made):
    lines = lazy(f"""
import threading
x = {made}
C.lazy_flush(True)
gate = C.Gate()
gate.enqueue()
x.copy_(torch.full((8,), 1.0, pin_memory=True), non_blocking=True)
thread = threading.Thread(target=lambda: x.copy_(torch.full((8,), 2.0)))
thread.start()
thread.join(0.2)  # a copy that does not wait would end in this time
print(thread.is_alive())
gate.open()
thread.join()
print(x.tolist())
""")
    assert lines == ["True", str([2.0] * 8)]


CALLS = """
import threading
x = torch.ones(8, device='hpu')
graph = C.Graph()
graph.begin()
y = x + 1
graph.end()
graph.set_io_binding([x], [y])
gate = C.Gate()
gate.enqueue()
given = torch.full((8,), 3.0).to('hpu')
(made,) = graph.call([given], asynchronous=True)
thread = threading.Thread(target=lambda: WRITTEN.copy_(torch.full((8,), 9.0)))
thread.start()
thread.join(0.2)
print(thread.is_alive())
gate.open()
thread.join()
print(given[0].item(), made[0].item())
"""


@pytest.mark.parametrize(("written", "values"), [("given", "9.0 4.0"), ("made", "3.0 9.0")])
def test_a_blocking_copy_runs_after_a_queued_graph(lazy, written, values):
    assert lazy(CALLS.replace("WRITTEN", written)) == ["True", values]


@pytest.mark.parametrize("order", ["a, t", "t, a"])
@pytest.mark.parametrize("size", [10, 2000])
def test_the_workspace_is_not_the_memory_of_a_freed_input(lazy, order, size):
    lines = lazy(f"""
host = torch.arange({size}.0)
b = host.to('hpu')
C.lazy_flush(True)
for turn in range(6):
    a = b.clone()
    a.mul_(3)
    C.lazy_flush(True)
    t = b + 1
    o = a * t
    del {order}
    C.lazy_flush(True)
    print(torch.equal(o.cpu(), (host * 3) * (host + 1)))
    del o
""")
    assert lines == ["True"] * 6


def test_launches_do_not_wait(lazy):
    lines = lazy("""
x = torch.ones(5, device='hpu')
def work():
    y = (x + 1) * 2
    C.lazy_flush(False)
    return y
for _ in range(3):
    work()
hpu.synchronize()
gate = C.Gate()
gate.enqueue()
results = [work() for _ in range(10)]
print(C.engine_counters()['pending'], hpu.current_stream().query())
gate.open()
print(all(r.tolist() == [4.0] * 5 for r in results))
""")
    assert lines == ["11 False", "True"]


def test_launches_with_and_without_the_lazy_thread(lazy):
    lines = lazy(
        KNOWN
        + """
C.lazy_flush(True)
for thread in (True, False):
    C.lazy_set_thread(thread)
    C.enqueue_delay(0.3)
    z = work()
    print(pending() > 0)
    C.lazy_flush(False)
    print(hpu.current_stream().query(), z[1].tolist())
"""
    )
    assert lines == ["True", "False [8.0, 10.0, 12.0]", "True", "True [8.0, 10.0, 12.0]"]


MIXED = """
for step in range(6):  # later steps follow the known graph
    x = torch.arange(4.0, device='hpu') + step
    c = torch.full((4,), float(step))
    y = torch.where((x + c) > 3, x * c, torch.sub(c, x))
    y.mul_(c)
    y = torch.cat([y, c])
    a, b = torch.arange(4.0) + step, torch.full((4,), float(step))
    z = torch.where((a + b) > 3, a * b, b - a).mul_(b)
    C.lazy_flush(False)
    print(y.device.type, torch.equal(y.cpu(), torch.cat([z, b])))
try:
    torch.ones(4).add_(x)
except RuntimeError as error:
    print('two devices' in str(error))
"""


def test_operators_mix_cpu_and_device_tensors(lazy):
    assert lazy(MIXED) == ["hpu True"] * 6 + ["True"]


def test_cpu_generators_draw_device_numbers(lazy):
    code = (
        "def draws(generator):\n"
        "    first = torch.randn(50, device='hpu', generator=generator)\n"
        "    second = torch.empty(50, device='hpu').uniform_(generator=generator)\n"
        "    C.lazy_flush(False)\n"
        "    return torch.cat([first, second]).cpu()\n"
        "def cpu(seed):\n"
        "    return torch.Generator().manual_seed(seed)\n"
        "one, again, other = draws(cpu(3)), draws(cpu(3)), draws(cpu(4))\n"
        "print(torch.equal(one, again), torch.equal(one, other))\n"
        "generator = cpu(3)\n"
        "print(torch.equal(draws(generator), one), torch.equal(draws(generator), one))\n"
    )
    assert lazy(code) == ["True False", "True False"]


def test_eager_mode_rejects_cpu_tensors_and_generators(output_of):
    code = (
        "import torch, habana_frameworks.torch\nx = torch.ones(3, device='hpu')\n"
        "cpu = torch.Generator()\n"
        "for call in (lambda: x + torch.ones(3), lambda: x.normal_(generator=cpu)):\n"
        "    try:\n        call()\n"
        "    except RuntimeError as error:\n        print('xpected' in str(error))\n"
    )
    assert output_of(code).split() == ["True", "True"]


def test_strict_lazy_mode_rejects_cpu_tensors_and_generators(lazy):
    code = (
        "x = torch.ones(3, device='hpu')\n"
        "for call in (lambda: x + torch.ones(3), lambda: x.normal_(generator=torch.Generator())):\n"
        "    try:\n        call()\n"
        "    except RuntimeError as error:\n        print('xpected' in str(error))\n"
    )
    assert lazy(code, HPU_REFERENCE_LAZY_STRICT="1") == ["True", "True"]
