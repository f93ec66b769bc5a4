"""Twenty steps of every link through gradus.torch, and the same in C: what torch returned at each evaluation is recorded (losses,
gradients, products with the Hessian, residuals and Jacobians) and replayed to the library by its C interface.  All bits are the same."""
import ctypes
import os
import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt

LIBRARY = pathlib.Path(gd.__file__).parents[2] / "libgradus.so"
STEPS = 20
F64, CALLBACK = 1, 22  # gradus/tensor.h, gradus/base.h


def bits(t):
    return t.detach().contiguous().numpy().tobytes()


# ---- recording ----

class Recorder:
    """In the place of what gradus.torch stands on: notes what goes by.  A call is (kind, parameters, what went in, what came out)."""

    def __init__(self, lent, params):
        self.lent, self.params, self.steps = lent, params, []

    def __getattr__(self, name):
        return getattr(self.lent, name)

    def note(self, kind, given, *answer):
        self.steps[-1].append((kind, [bits(p) for p in self.params], given, answer))

    def step(self, lists, loss, numbers):
        self.steps.append([])
        self.note("step", None, loss.item(), [bits(p.grad) for p in self.params])
        self.lent.step(lists, loss, numbers)

    def minimize(self, lists, value, gradient, products, jacobian, numbers):
        self.steps.append([])
        kept, hvp = products

        def noted_value():
            loss = value()
            self.note("value", None, loss)
            return loss

        def noted(kind, evaluate):
            loss = evaluate()
            self.note(kind, None, loss, [bits(p.grad) for p in self.params])
            return loss

        def noted_hvp(vectors):
            given = [bits(torch.from_dlpack(v)) for v in vectors]
            answer = hvp(vectors)
            self.note("hvp", given, [bits(p) for p in answer])
            return answer

        def noted_jacobian():
            j, r = jacobian()
            self.note("jacobian", None, tuple(j.shape), bits(j), bits(r))
            return j, r

        self.lent.minimize(lists, noted_value, lambda: noted("gradient", gradient), (lambda: noted("kept", kept), noted_hvp),
                           noted_jacobian, numbers)


torch.manual_seed(0)
START = [torch.randn(2, 2, dtype=torch.double), torch.randn(1, dtype=torch.double)]
MIX = torch.randn(7, 5, dtype=torch.double)


def with_torch(chain):
    """What was recorded, and where the parameters end."""
    gd.Context(threads=1, seed=1).use()
    params = [torch.nn.Parameter(p.clone()) for p in START]
    optimizer = gt.Optimizer(params, chain)
    optimizer._lent = recorder = Recorder(optimizer._lent, params)

    def residuals():
        x = torch.cat([p.flatten() for p in params])
        return MIX @ (x + 0.1 * x**3) - 1

    for _ in range(STEPS):
        optimizer.step(residuals=residuals)
    return recorder.steps, [bits(p) for p in params]


# ---- the same in C ----

P, D, S = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
VALUE = ctypes.CFUNCTYPE(S, P, ctypes.POINTER(D))
GRADIENT = ctypes.CFUNCTYPE(S, P, ctypes.POINTER(D), ctypes.POINTER(P))
HVP = ctypes.CFUNCTYPE(S, P, ctypes.POINTER(P), ctypes.POINTER(P))
JACOBIAN = ctypes.CFUNCTYPE(S, P, ctypes.POINTER(P), ctypes.POINTER(P))


class Objective(ctypes.Structure):  # gd_objective
    _fields_ = [("user", P), ("loss", P), ("value", VALUE), ("gradient", GRADIENT), ("hvp", HVP), ("residuals", P), ("jacobian", JACOBIAN),
                ("values", P), ("rows", P), ("batch", P), ("equal", P), ("below", P), ("gradient_kept", GRADIENT),
                ("traced", ctypes.c_bool), ("evaluate", P), ("gives", ctypes.c_uint), ("constraint_name", P)]


class Extra(ctypes.Structure):  # gd_step_extra
    _fields_ = [("loss", P), ("names", P), ("values", P), ("count", S)]


class Library:
    """libgradus.so as a C program sees it."""

    RETURNS = {P: ("gd_ctx_new", "gd_chain", "gd_optimizer_new", "gd_from_f64", "gd_require_grad"), ctypes.c_char_p: ("gd_error_text",),
               None: ("gd_ctx_free", "gd_optimizer_free", "gd_release", "gd_seed", "gd_scope_begin", "gd_scope_end"),
               S: ("gd_optimizer_add", "gd_optimizer_step_with", "gd_read_f64", "gd_write_f64", "gd_set_grad"), ctypes.c_int64: ("gd_numel",)}

    def __init__(self):
        self.dll = ctypes.CDLL(str(LIBRARY), mode=os.RTLD_LOCAL)
        for kind, names in self.RETURNS.items():
            for name in names:
                getattr(self.dll, name).restype = kind
        self.ctx = P(self.dll.gd_ctx_new(None))
        self.dll.gd_seed(self.ctx, ctypes.c_uint64(1))

    def done(self, status):
        assert status == 0, self.dll.gd_error_text(self.ctx)

    def tensor(self, values, shape):
        """Of the innermost scope, else owned."""
        return P(self.dll.gd_from_f64(self.ctx, F64, len(shape), (ctypes.c_int64 * len(shape))(*shape), ctypes.c_char_p(values)))

    def bits(self, t):
        count = self.dll.gd_numel(P(t))
        out = ctypes.create_string_buffer(8 * count)
        self.done(self.dll.gd_read_f64(P(t), out, ctypes.c_int64(count)))
        return out.raw

    def write(self, t, values):
        self.done(self.dll.gd_write_f64(P(t), ctypes.c_char_p(values), ctypes.c_int64(len(values) // 8)))


class Replay:
    """Callbacks that answer what torch answered, and look whether they are asked the same."""

    def __init__(self, c, params, calls):
        self.c, self.params, self.calls, self.wrong = c, params, calls, None
        self.objective = Objective(value=VALUE(self.guarded(self.value)), gradient=GRADIENT(self.guarded(self.gradient)),
                                   gradient_kept=GRADIENT(self.guarded(self.kept)), hvp=HVP(self.guarded(self.hvp)),
                                   jacobian=JACOBIAN(self.guarded(self.jacobian)))

    def guarded(self, fn):
        def call(user, *args):
            try:
                fn(*args)
                return 0
            except Exception as e:  # what is raised here goes nowhere
                self.wrong = self.wrong or e
                return CALLBACK
        return call

    def next(self, kind, given=None):
        assert self.calls, f"one {kind} more than torch was asked for"
        expected, params, wanted, answer = self.calls.pop(0)
        assert expected == kind and params == [self.c.bits(p.value) for p in self.params] and wanted == given, kind
        return answer

    def value(self, loss):
        (loss[0],) = self.next("value")

    def gradient(self, loss, grads, kind="gradient"):
        loss[0], slopes = self.next(kind)
        for i, slope in enumerate(slopes):
            self.c.write(grads[i], slope)

    def kept(self, loss, grads):
        self.gradient(loss, grads, "kept")

    def hvp(self, v, out):
        (products,) = self.next("hvp", [self.c.bits(v[i]) for i in range(len(self.params))])
        for i, product in enumerate(products):
            self.c.write(out[i], product)

    def jacobian(self, j, r):
        shape, jacobian, residuals = self.next("jacobian")
        j[0], r[0] = self.c.tensor(jacobian, shape).value, self.c.tensor(residuals, shape[:1]).value


def in_c(chain, steps):
    c = Library()
    params = [P(c.dll.gd_require_grad(c.tensor(bits(p), p.shape))) for p in START]
    optimizer = P(c.dll.gd_optimizer_new(c.ctx, P(c.dll.gd_chain(c.ctx, gt._with_lr(chain).encode()))))
    for i, p in enumerate(params):
        c.done(c.dll.gd_optimizer_add(optimizer, f"p{i}".encode(), p))
    for number, calls in enumerate(steps):
        c.dll.gd_scope_begin(c.ctx)
        replay = Replay(c, params, list(calls))
        if calls and calls[0][0] == "step":
            loss, slopes = replay.next("step")
            for p, t, slope in zip(params, START, slopes):
                c.done(c.dll.gd_set_grad(p, c.tensor(slope, t.shape)))
            extra = Extra(loss=c.tensor(ctypes.string_at(ctypes.byref(D(loss)), 8), ()))
            status = c.dll.gd_optimizer_step_with(optimizer, None, ctypes.byref(extra), None)
        else:
            status = c.dll.gd_optimizer_step_with(optimizer, ctypes.byref(replay.objective), None, None)
        assert replay.wrong is None, (chain, number, replay.wrong)
        c.done(status)
        assert not replay.calls, (chain, number, "torch was asked more often")
        c.dll.gd_scope_end(c.ctx)
    ends = [c.bits(p.value) for p in params]
    c.dll.gd_optimizer_free(optimizer)
    for p in params:
        c.dll.gd_release(p)
    c.dll.gd_ctx_free(c.ctx)
    return ends


# ---- every link ----

def chain_with(name):
    """The link by itself where it can be, else the example of its row."""
    row = gd.link_table(name)
    try:
        gd.Chain(name)
        text = name
    except gd.Error:
        text = row["example"]
    return text if "lr" in text else f"{text} | lr(0.01)"


@pytest.mark.skipif(not LIBRARY.exists(), reason="the library as C programs link it is not built: ./dev torch does")
def test_every_link_has_the_bits_of_the_same_chain_in_c(monkeypatch):
    monkeypatch.setenv("GRADUS_THREADS", "1")
    usual, kinds = gd._core.current_context(), set()
    try:
        for name in gd.link_names():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                steps, ends = with_torch(chain_with(name))
            kinds |= {call[0] for calls in steps for call in calls}
            assert in_c(chain_with(name), steps) == ends, name
    finally:
        usual.use()
    assert kinds == {"step", "value", "gradient", "kept", "hvp", "jacobian"}
