"""The tables of ./dev bench peers: who is compared, and on what."""
import dataclasses

LIMIT = 60  # seconds that one side may have for one work, everybody alike: then it is stopped
ENOUGH = 10  # and once its rounds have taken that long there are no more of them
SOLVING = "1 s of the processor, one of more than 1000 numbers 10 s, and 20,000 evaluations, for all solvers alike"


@dataclasses.dataclass
class Peer:
    name: str
    command: list  # words; {python} is that of the environment, {peers} the folder of this file, {built} that of the C programs
    package: str = ""  # of the registry, or of Debian where there is no Python in the command
    imported: str = ""  # what the registry's package is imported as


PEERS = {p.name: p for p in [
    Peer("floor", ["{built}/peer_floor"]),
    Peer("gradus", ["{built}/peer_gradus"]),
    Peer("gradus program", ["{python}", "{peers}/program.py"]),
    Peer("gradus.torch", ["{python}", "{peers}/with_torch.py", "gradus"], "torch", "torch"),
    Peer("PyTorch", ["{python}", "{peers}/with_torch.py", "torch"], "torch", "torch"),
    Peer("torchzero", ["{python}", "{peers}/with_torch.py", "torchzero"], "torchzero", "torchzero"),
    Peer("pytorch_optimizer", ["{python}", "{peers}/with_torch.py", "pytorch_optimizer"], "pytorch_optimizer", "pytorch_optimizer"),
    Peer("Optax", ["{python}", "{peers}/with_jax.py"], "optax", "optax"),
    Peer("SciPy", ["{python}", "{peers}/with_scipy.py", "scipy"], "scipy", "scipy"),
    Peer("lmfit", ["{python}", "{peers}/with_scipy.py", "lmfit"], "lmfit", "lmfit"),
    Peer("scikit-learn", ["{python}", "{peers}/with_scipy.py", "sklearn"], "scikit-learn", "sklearn"),
    Peer("liblbfgs", ["{built}/peer_lbfgs"], "liblbfgs-dev"),
    Peer("NLopt", ["{built}/peer_nlopt"], "libnlopt-dev"),
    Peer("GSL", ["{built}/peer_gsl"], "libgsl-dev"),
    Peer("Ceres", ["{built}/peer_ceres"], "libceres-dev"),
    Peer("IPOPT", ["{built}/peer_ipopt"], "coinor-libipopt-dev"),
]}


@dataclasses.dataclass
class Side:
    """Who does a piece of work, and how."""
    peer: str
    label: str = ""
    more: str = ""  # to the line that opens it

    def __post_init__(self):
        self.label = self.label or self.peer


@dataclasses.dataclass
class Work:
    name: str
    group: str
    line: str  # open LINE
    sides: list
    seconds: float = 0.2  # of a round
    rounds: int = 5
    apart: bool = False  # too large for all sides at once: each is opened and closed in its turn
    note: str = ""
    quick: str = ""  # a smaller line for --quick; "-": left out there
    curve: tuple = ()  # (picture, size)


FLOOR, GRADUS = Side("floor"), Side("gradus")


def others(*names):
    return [Side(n) if isinstance(n, str) else n for n in names]


FUSED = Side("PyTorch", "PyTorch fused", "how=fused")
FOREACH = Side("PyTorch", "PyTorch foreach", "how=foreach")
STEPS = [FLOOR, GRADUS, *others("gradus.torch", FUSED, FOREACH, "Optax", "torchzero")]
CHAIN = '`clip_norm(1, dim="global") | adam | weight_decay(0.01) | lr(1e-3)`'

GROUPS = {
    "step": "Optimizer steps",
    "size": "Optimizer steps against size",
    "autograd": "Autograd",
    "curvature": "Gradients, Hessians and their products",
    "minimize": "Minimising",
    "bounds": "Bound constraints",
    "fit": "Curve fitting",
    "train": "A classifier from a table",
    "start": "Start-up",
}
ABOUT = {
    "step": f"A step of {CHAIN} and of other chains. Gradients are there, and others at every step; parameters, gradients and moments have the "
            "dtype named. The floor only reads and writes the bytes that an ideal step must. `gradus.torch` is the same chain as an optimizer of "
            "PyTorch, in PyTorch's memory.",
    "size": f"A step of {CHAIN} over one tensor, f32.",
    "autograd": "Forward and backward; of the transformer a whole training step with AdamW.",
    "curvature": "Of the chained Rosenbrock function, f64. The floor is a loop written by hand, on one thread.",
    "minimize": "Everybody evaluates the same functions with the same exact gradients, by the same code, from the published starts. Solved: ended "
                "within 1e-4 of a known minimum (1e-8 where that is 0). Evaluations and time are those until the target was first met, as ratios "
                "to gradus over the problems that both solve (geometric means); the time of all is that of all problems to their ends.",
    "bounds": "The same between bounds; within 1e-6 of a known minimum.",
    "fit": "Exact Jacobians for everybody. The curve is a decay and a peak, six parameters. NIST: 27 data sets from two starts each; solved means "
           "four digits of every certified parameter; digits are the mean of all, at most 11.",
    "train": "Default settings. gradus: the program, with its start and the reading of the table; scikit-learn: `MLPClassifier` with standardised "
             "inputs, the reading and the fit in an interpreter that runs already (its start is in the last column).",
    "start": "From the start of a process to its end.",
}


def step(name, line, sides=None, quick="size=1000 count=1", **more):
    return Work(name, "step", f"step {line}", sides or STEPS, quick=f"step {quick} " + " ".join(
        w for w in line.split() if w.startswith(("rule", "dtype"))), **more)


def solving(name, group, line, sides, **more):
    return Work(name, group, f"solve {line} warm=0", sides, **{"seconds": 0, "rounds": 3, "quick": f"solve {line} most=5 warm=0", **more})


QUASI_NEWTON = [GRADUS, *others(Side("SciPy", "SciPy L-BFGS-B", "method=L-BFGS-B"), Side("SciPy", "SciPy BFGS", "method=BFGS"), "liblbfgs",
                                Side("NLopt", "NLopt LBFGS", "method=lbfgs"), Side("GSL", "GSL bfgs2", "method=bfgs2"),
                                Side("Ceres", "Ceres L-BFGS", "method=lbfgs"), "IPOPT")]
LIMITED_MEMORY = [s for s in QUASI_NEWTON if s.label not in ("SciPy BFGS", "GSL bfgs2")] + [Side("GSL", "GSL conjugate_fr", "method=conjugate_fr")]
BOUNDED = [GRADUS, *others(Side("SciPy", "SciPy L-BFGS-B", "method=L-BFGS-B"), Side("SciPy", "SciPy TNC", "method=TNC"),
                           Side("NLopt", "NLopt LBFGS", "method=lbfgs"), Side("NLopt", "NLopt MMA", "method=mma"), "IPOPT")]
FITTERS = [GRADUS, *others("SciPy", "lmfit", "GSL", "Ceres")]


def start(name, sides):
    return Work(name, "start", "command warm=0", [Side("gradus program", label, f"line={line}") for label, line in sides], seconds=0, rounds=3, quick="command warm=0")


VALLEY = "(1-x)^2 + 100*(y-x^2)^2"
SOLVED = {
    "gradus": f"{{gradus}} minimize '{VALLEY}' --param x=-1.2 --param y=1 --json",
    "gradus (Python)": "{python} -c 'import gradus; gradus.minimize(lambda p: (1-p[0])**2 + 100*(p[1]-p[0]**2)**2, [-1.2, 1.0])'",
    "SciPy": "{python} -c 'from scipy.optimize import minimize; minimize(lambda p: (1-p[0])**2 + 100*(p[1]-p[0]**2)**2, [-1.2, 1.0])'",
    "PyTorch": "{python} -c 'import torch; p = torch.tensor([-1.2, 1.0], requires_grad=True); o = torch.optim.LBFGS([p], line_search_fn=\"strong_wolfe\", "
               "max_iter=100)\ndef f():\n o.zero_grad(); l = (1-p[0])**2 + 100*(p[1]-p[0]**2)**2; l.backward(); return l\no.step(f)'",
    "JAX": "{python} -c 'import jax, jax.numpy as np; from jax.scipy.optimize import minimize; minimize(lambda p: (1-p[0])**2 + 100*(p[1]-p[0]**2)**2, "
           "np.array([-1.2, 1.0]), method=\"BFGS\").x.block_until_ready()'",
}
IMPORTED = {"gradus (Python)": "gradus", "gradus.torch": "gradus.torch", "PyTorch": "torch", "torchzero": "torchzero", "pytorch_optimizer": "pytorch_optimizer",
            "Optax": "optax", "SciPy": "scipy.optimize", "lmfit": "lmfit", "scikit-learn": "sklearn.neural_network"}


def rows_name(n):
    return f"1e{len(str(n)) - 1} rows"


WORKS = [
    step("AdamW, clipped: one tensor of 2", "rule=adamw size=2"),
    step("AdamW, clipped: 1000 tensors of 2", "rule=adamw size=2 count=1000"),
    step("AdamW, clipped: 1000 tensors of 1000", "rule=adamw size=1000 count=1000"),
    step("AdamW, clipped: 20M in one tensor", "rule=adamw size=20000000", seconds=0.4, apart=True, rounds=3),
    step("AdamW, clipped: GPT-2, 124M in 148 tensors", "rule=adamw shape=gpt2", seconds=0.4, apart=True, rounds=3),
    step("AdamW, clipped: 1000 tensors of 1000, bf16", "rule=adamw size=1000 count=1000 dtype=bf16"),
    step("AdamW, clipped: 20M in one tensor, bf16", "rule=adamw size=20000000 dtype=bf16", seconds=0.4, apart=True, rounds=3),
    step("Adam alone: 20M in one tensor", "rule=adam size=20000000", seconds=0.4, apart=True, rounds=3),
    step("Seven links: 20M in one tensor", "rule=seven size=20000000", [FLOOR, GRADUS, *others("gradus.torch", "Optax", "torchzero")], seconds=0.4,
         apart=True, rounds=3, note="`clip_value(1) | weight_decay(1e-3) | lr(2) | adam | weight_decay(0.01) | clip_value(10) | lr(1e-3)`"),
    step("Lion: 20M in one tensor", "rule=lion size=20000000", [FLOOR, GRADUS, *others("gradus.torch", "pytorch_optimizer", "Optax", "torchzero")],
         seconds=0.4, apart=True, rounds=3),
    *[Work(f"one tensor of 1e{k}", "size", f"step rule=adamw size=1e{k}", [FLOOR, GRADUS, *others("gradus.torch", FUSED, "Optax", "torchzero")],
           seconds=0.1 if k < 7 else 0.3, rounds=3 if k < 8 else 1, apart=k > 6, quick="" if k < 3 else "-", curve=("step", k)) for k in range(9)],
    Work("Rosenbrock in two numbers and Adam, a step", "autograd", "rosenbrock", [GRADUS, *others("gradus.torch", "PyTorch", "Optax", "torchzero")], quick="rosenbrock"),
    Work("784-256-10 network, batch 128", "autograd", "mlp", [GRADUS, *others("PyTorch", "Optax")], quick="mlp"),
    Work("Convolutional network, 16 and 32 channels, 28 x 28, batch 128", "autograd", "conv", [GRADUS, *others("PyTorch", "Optax")], seconds=0.4, quick="conv"),
    Work("Transformer of 128 x 2 blocks, 8 x 64 symbols, training step", "autograd", "transformer", [GRADUS, *others("PyTorch", "Optax")], seconds=0.4,
         quick="transformer"),
    *[Work(f"gradient, n = 1e{k}", "curvature", f"gradient size=1e{k}", [FLOOR, GRADUS, *others("PyTorch", "Optax")], seconds=0.1, rounds=3, apart=k > 6,
           quick="" if k < 3 else "-", curve=("gradient", k)) for k in range(1, 8)],
    Work("Hessian-vector product, n = 1e2", "curvature", "product size=1e2", [GRADUS, *others("PyTorch", "Optax")], quick="product size=10"),
    Work("Hessian-vector product, n = 1e6", "curvature", "product size=1e6", [GRADUS, *others("PyTorch", "Optax")], rounds=3, quick="-"),
    Work("Hessian, n = 200", "curvature", "hessian size=200", [GRADUS, *others("PyTorch", "Optax")], quick="hessian size=10"),
    Work("Hessian, n = 1000", "curvature", "hessian size=1000", [GRADUS, *others("PyTorch", "Optax")], rounds=3, quick="-"),
    solving("115 problems of 2 to 1000 numbers, MGH's 42 among them", "minimize", "set=minimize", QUASI_NEWTON),
    solving("Chained Rosenbrock of 1000", "minimize", "set=chained size=1000", QUASI_NEWTON, quick="solve set=chained size=10 warm=0",
            note="To a largest element of the gradient of 1e-6."),
    solving("Rosenbrock in pairs, 1e6 numbers", "minimize", "set=paired size=1000000", LIMITED_MEMORY, quick="-",
            note="To a largest element of the gradient of 1e-6."),
    solving("30 problems of 2 to 900 numbers", "bounds", "set=bounds", BOUNDED),
    solving("A quadratic of 1e5 numbers, a third of which end at a bound", "bounds", "set=quadratic size=100000", BOUNDED, rounds=3, quick="-",
            note="To a largest element of x - P(x - gradient) of 1e-5."),
    solving("NIST, 54 runs", "fit", "set=nist", [GRADUS, *others(Side("SciPy", "SciPy trf", "method=trf"), Side("SciPy", "SciPy lm", "method=lm"), "lmfit",
                                                                     "GSL", "Ceres")]),
    *[Work(rows_name(10**k), "fit", f"fit rows=1e{k}" + (" warm=0" if k > 5 else ""), FITTERS, seconds=0.2 if k < 6 else 0, rounds={6: 3, 7: 1}.get(k, 5),
           apart=k > 5, quick="" if k < 4 else "-",
           curve=("fit", k)) for k in range(3, 8)],
    Work("4000 rows of 12 numbers, three classes", "train", "train train={data}/train.csv test={data}/test.csv",
         [Side("gradus program", "gradus"), Side("scikit-learn")], seconds=0, rounds=3, quick="train train={data}/train.csv test={data}/test.csv"),
    Work("spirals: 2 numbers, three classes", "train", "train train={examples}/spirals.csv test={examples}/spirals.csv target=arm",
         [Side("gradus program", "gradus"), Side("scikit-learn")], seconds=0, rounds=3, quick="-", note="Scored on the rows it was trained on."),
    start("import", [(label, f"{{python}} -c 'import {what}'") for label, what in IMPORTED.items()]),
    start("Rosenbrock's minimum, from the start of the process", SOLVED.items()),
]
