"""Who lives how long: references, scopes of closures, closed contexts, threads, memory over many steps."""
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import gradus as gd


def live():
    gc.collect()
    return gd.current_context().live


@pytest.fixture
def context():
    """A context of its own, current while the test runs."""
    before = gd.current_context()
    made = gd.Context(threads=1)
    made.use()
    yield made
    before.use()
    made.close()


def test_dropped_tensors_go_at_once():
    before = live()
    x = gd.ones((10, 10)).require_grad()
    y = (x * 2 + 1).sum()
    y.backward()
    del x, y
    assert live() == before


def test_a_closed_context_is_refused_by_everything_in_it(context):
    class Net(gd.Module):
        pass
    net = Net()
    net.w = gd.ones(2)
    gd.VirtualTensor.create(net, "double", lambda o, dtype, device: o.w * 2)
    x, virtual = gd.ones(3).require_grad(), net.double
    optimizer = gd.Optimizer([x], "lr(0.1)")
    context.close()
    assert context.closed
    for use in (lambda: x + 1, lambda: 1 - x, lambda: x.shape, lambda: x[0], lambda: x.sum("a"), lambda: x.tolist(), lambda: gd.exp(x),
                lambda: optimizer.step(), lambda: optimizer.chain, lambda: net.save("nowhere"), lambda: virtual.value,
                lambda: setattr(net, "w", gd.ones(2)), lambda: x.__dlpack__(), lambda: np.asarray(x), lambda: x.backward(),
                lambda: context.live, lambda: context.use(), lambda: gd.cat([x, x]), lambda: pickle.dumps(x)):
        with pytest.raises(gd.StateError, match="closed"):
            use()
    assert "closed" in repr(x)


def test_what_others_hold_outlives_its_context(context):
    array = gd.arange(1000.0).numpy()
    context.close()
    assert array.sum() == 499500
    del array


def test_modules_in_cycles_with_their_virtual_tensors_are_collected():
    before = live()

    class Net(gd.Module):
        pass

    def make():
        net = Net()
        net.w = gd.ones(3).require_grad()
        gd.VirtualTensor.create(net, "twice", lambda owner, dtype, device: net.w * 2)  # holds net itself
        net.child = Net()
        net.again = [net]
        assert net.twice.value.tolist() == [2, 2, 2]
        return weakref.ref(net)

    net = make()
    gc.collect()
    assert net() is None and live() == before


def test_optimizers_in_cycles_are_collected():
    before = live()

    class Net(gd.Module):
        pass
    net = Net()
    net.w = gd.ones(3).require_grad()
    net.optimizer = gd.Optimizer(net, "adam | lr(0.1)")
    net.optimizer.step(lambda: (net.w**2).sum())
    del net
    assert live() == before


def test_a_tensor_made_in_a_closure_lives_on_outside():
    x = gd.tensor([1.0, 2.0]).require_grad()
    kept = []

    def loss():
        kept.append(x * 3)
        return (kept[-1] ** 2).sum()
    optimizer = gd.Optimizer([x], "lbfgs | strong_wolfe")
    for _ in range(5):
        optimizer.step(loss)
    churn = [gd.full((100,), float(i)) for i in range(100)]
    assert kept[0].tolist() == [3, 6] and len(churn) == 100


def test_a_closure_may_return_a_tensor_that_nobody_else_holds():
    x = gd.tensor([1.0, 2.0]).require_grad()
    box = [(x**2).sum()]
    assert gd.Optimizer([x], "lr(0.1)").step(box.pop) == 5.0
    assert x.tolist() == pytest.approx([0.8, 1.6])


def test_an_optimizer_runs_inside_the_closure_of_another():
    x, y = gd.ones(2).require_grad(), gd.ones(2).require_grad()
    inner = gd.Optimizer([y], "lr(0.5)")

    def loss():
        inner.step(lambda: ((y - x.detach() - 1) ** 2).sum())
        return ((x - y.detach()) ** 2).sum()
    outer = gd.Optimizer([x], "lr(0.25)")
    for _ in range(3):
        outer.step(loss)
    assert y.tolist() == [3, 3] and x.tolist() == [2.5, 2.5]


def test_parameters_are_as_before_where_a_closure_fails():
    x = gd.tensor([1.0, 2.0]).require_grad()
    optimizer = gd.Optimizer([x], "lbfgs | strong_wolfe")
    optimizer.step(lambda: (x**4).sum())
    before, calls = x.tolist(), []

    def fails():
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("second evaluation")
        return (x**4).sum()
    with pytest.raises(ValueError, match="second evaluation") as caught:
        optimizer.step(fails)
    assert x.tolist() == before and caught.traceback[-1].name == "fails"
    with pytest.raises(TypeError, match="Tensor"):
        optimizer.step(lambda: 1.0)
    assert optimizer.step(lambda: (x**4).sum()) == pytest.approx(sum(v**4 for v in before))


def test_wrong_calls_keep_no_references():
    x, other = gd.ones(3), object()
    counts = sys.getrefcount(x), sys.getrefcount(other)
    for _ in range(50):
        for wrong in (lambda: gd.add(x, other), lambda: x + gd.ones(4), lambda: gd.sum(x, axes=other), lambda: gd.cat([x, other]),
                      lambda: x.sum("none"), lambda: gd.add(x), lambda: gd.clamp(x, other), lambda: x[other], lambda: gd.tensor([x, other])):
            with pytest.raises((TypeError, ValueError, KeyError, NotImplementedError)):
                wrong()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(other)) == counts


def test_capsules_end_once_taken_or_not():
    before = live()
    x = gd.ones(3)
    capsule = x.__dlpack__(max_version=(1, 0))
    y = gd.from_dlpack(capsule)
    with pytest.raises(ValueError):
        gd.from_dlpack(capsule)
    x.__dlpack__(), x.__dlpack__(max_version=(1, 0))
    y[0] = 5
    assert x.tolist() == [5, 1, 1]
    del x, y, capsule
    assert live() == before
    array = np.arange(3.0)
    count = sys.getrefcount(array)
    for _ in range(10):
        gd.from_dlpack(array), gd.asarray(array)
    assert sys.getrefcount(array) == count


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps freed memory for a while")
def test_memory_is_flat_over_many_steps():
    x = gd.ones((64, 64)).require_grad()
    optimizer = gd.Optimizer([x], "clip_norm(1) | adam | lr(1e-3)")

    def work(steps):
        for i in range(steps):
            optimizer.step(lambda: ((x @ x)[0] ** 2).sum())
            try:
                optimizer.step(lambda: x + gd.ones(3))
            except gd.Error:
                pass
            gd.tensor([[1.0, 2.0]] * 8).numpy().sum()
    work(200)
    before, objects = resident(), live()
    work(2000)
    assert live() == objects
    assert resident() - before < 4 << 20


def test_threads_share_a_context_one_at_a_time():
    x = gd.ones(100_000)  # large enough that the interpreter's lock is let go
    failures = []

    def work(number):
        try:
            p = gd.ones(50_000).require_grad()
            optimizer = gd.Optimizer([p], "adam | lr(0.1)")
            for i in range(30):
                y = x * float(number) + 1.0
                if y[99_999].item() != number + 1.0:
                    failures.append((number, i))
                optimizer.step(lambda: (p**2).sum())
                small = [gd.ones(3) + 1 for _ in range(20)]
                del y, small
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
    before = live()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    del x
    assert live() == before - 1


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps freed memory for a while")
def test_memory_is_flat_over_a_million_steps():
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    x.grad = gd.ones(2)
    step = gd.Optimizer([x], "clip_norm(1) | adam | lr(1e-6)").step
    for _ in range(10_000):
        step()
    before, objects = resident(), live()
    for _ in range(1_000_000):
        step()
    assert live() == objects and resident() - before < 1 << 20


def test_arguments_that_run_python_code_do_not_let_two_threads_in():
    x = gd.ones(200_000)

    class Slow:
        """Gives the interpreter's lock away while it is converted."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            threading.Event().wait(0.001)
            return self.array.__dlpack__(**keywords)

    failures, slow = [], Slow(np.ones(200_000))

    def work():
        for _ in range(20):
            if (gd.add(x, slow) + slow)[7].item() != 3.0:
                failures.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_tensor_dropped_by_another_thread_during_a_step_goes_afterwards():
    before = live()
    x = gd.ones(10).require_grad()
    started, dropped = threading.Event(), threading.Event()
    box = [gd.ones(1000)]

    def drop():
        started.wait()
        box.clear()
        dropped.set()
    thread = threading.Thread(target=drop)
    thread.start()

    def loss():
        started.set()
        dropped.wait(10)
        return (x**2).sum()
    gd.Optimizer([x], "lr(0.1)").step(loss)
    thread.join()
    del x, loss
    assert live() == before


def test_contexts_run_beside_each_other():
    contexts = [gd.Context(threads=1, seed=n) for n in range(2)]
    assert [c.threads for c in contexts] == [1, 1]
    before = gd.current_context()
    contexts[0].use()
    x = gd.ones(2)
    contexts[1].use()
    y = gd.ones(2)
    with pytest.raises(gd.Error):
        x + y
    assert (x + 1).context is contexts[0]
    before.use()


CTRL_C = """
import os, signal, sys, threading, time
import gradus as gd
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests were started in the background
x0 = [float(i % 7) for i in range(50)]
def slow(x):
    time.sleep(0.001)
    return ((x - gd.arange(50.0)) ** 4).sum()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    gd.minimize(slow, x0, "lr(1e-9)", max_steps=10**9, gradient_tol=0.0)
except KeyboardInterrupt:
    print("stopped", gd.ones(2).sum().item())
"""


def test_ctrl_c_ends_a_run_cleanly():
    run = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "stopped 2.0", run.stderr


def test_a_fork_goes_on_with_the_context():
    x = gd.ones(4)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, repr((x * 2).sum().item()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    assert os.read(read, 100) == b"8.0"
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0


def test_pickles_and_copies():
    import copy

    x = gd.tensor([[1.0, 2.0]], axes=("a", "b"), labels={"b": ["p", "q"]}, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == x.tolist() and y.axes == x.axes and y.labels == x.labels and y.requires_grad and y.is_leaf
    for dtype in ("f32", "f16", "bf16", "i64", "i32", "u8", "bool"):
        y = pickle.loads(pickle.dumps(gd.tensor([1, 0, 1]).to(dtype)))
        assert y.dtype == dtype and [int(v) for v in y.tolist()] == [1, 0, 1]
    assert pickle.loads(pickle.dumps(gd.m.adam() | gd.m.lr(0.1))) == gd.m.adam() | gd.m.lr(0.1)


def test_nothing_is_imported_that_is_not_used():
    code = "import sys, gradus; print([m for m in ('numpy', 'torch', 'jax', 'typing', 're') if m in sys.modules])"
    folder = os.path.dirname(os.path.dirname(gd.__file__))
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})
    assert run.stdout.strip() == "[]", run.stderr


def test_another_interpreter_is_refused():
    code = """
import gradus
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
i = interpreters.create()
print(interpreters.run_string(i, "try:\\n import gradus\\nexcept ImportError as e:\\n print(e)"))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "main interpreter" in run.stdout + run.stderr or "does not support loading in subinterpreters" in run.stdout + run.stderr, run.stderr


def test_a_free_threaded_interpreter_is_refused():
    run = subprocess.run([sys.executable, "-c", "import sys; sys.abiflags += 't'; import gradus"], capture_output=True, text=True)
    assert "ImportError: gradus needs an interpreter with its lock: free-threaded builds" in run.stderr
