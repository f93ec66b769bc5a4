"""Why a peer is ahead of gradus at a piece of work, and what would change it.  By the name of the work (a * at its end: those that begin
so) or of its group; then by the label of the side, or * for all.  The first that fits is taken."""

COMPILED = ("This row runs gradus operator by operator, and each writes its result to memory; XLA compiles the whole function with its derivatives "
            "into loops. A traced function (`gd_trace`, `gd_objective.traced`) is replayed as fused loops: `./dev bench trace` times that beside jax.jit.")
WHOLE_MATRIX = ("It keeps a whole matrix, n^2 numbers, where gradus's default remembers ten pairs of vectors: fewer evaluations on problems of few numbers. "
                "The chain `bfgs | strong_wolfe` does the same here.")
BY_HAND = ("Its residuals and Jacobian are one loop of C that somebody wrote by hand, derivatives included; gradus makes both from operators, some forty "
           "of which start for every range of rows. An expression compiled into one program, as chains of links are, would change it.")
MORE_THAN_A_FIT = ("It ends where MINPACK does. Of the instructions that gradus executes for 1e3 rows (callgrind; nothing of it is start-up) about a sixth each go "
                   "into residuals, Jacobians, the QR and the Newton steps that polish the last digits, a fifth into terms of second order along steps. "
                   "`gd_lsq_options.polish` off takes a fifth less time, `.acceleration` off a third; residuals compiled into one program would change the rest.")
SEARCHES = ("It is the same kind of method with another first step and another search along the line, which suits some of the problems better and others "
            "worse. A search that tries a longer first step where the gradient is small would save evaluations on the well-scaled ones.")
AROUND = ("Both evaluate about as often; the rest of the time is work around the evaluations. When this row was measured, a step of `lbfgs` on 10 numbers "
          "took 71 thousand instructions of callgrind; it takes 19 thousand now, liblbfgs 3.4 (`./dev bench small`). From 1000 numbers on gradus is ahead.")

REASONS = {
    "gradient*": {"Optax": COMPILED},
    "Hessian-vector product*": {"Optax": COMPILED + " It also goes forward over reverse, which records no second graph; gradus goes reverse over reverse."},
    "Hessian, *": {"Optax": COMPILED},
    "Convolutional network*": {
        "PyTorch": "When this row was measured, gradus copied windows into memory before the products, and pooled window by window. It does neither any "
                   "more; `./dev bench operators` times the operators alone.",
        "Optax": "XLA convolves with kernels that make no copy of every window, and fuses relu with the pooling; gradus copies windows out and multiplies. "
                 "Direct kernels for 3 x 3 and a pooling without copies would change it."},
    "Transformer*": {
        "PyTorch": "Its attention is one kernel that never writes the scores to memory, and its products are MKL's; gradus writes scores, softmax and their "
                   "gradients. An attention in one pass would change it.",
        "Optax": COMPILED},
    "784-256-10 network*": {
        "PyTorch": "Nearly all of it are six products of matrices: MKL's here, OpenBLAS's in gradus. Another BLAS would change it.",
        "Optax": "Nearly all of it are six products of matrices, by XLA's kernels here and OpenBLAS's in gradus; XLA fuses what is between. Another BLAS would "
                 "change it."},
    "Rosenbrock in two numbers*": {"Optax": COMPILED},
    "115 problems*": {"SciPy BFGS": WHOLE_MATRIX, "GSL bfgs2": AROUND, "SciPy L-BFGS-B": SEARCHES, "*": AROUND},
    "Chained Rosenbrock*": {"SciPy BFGS": WHOLE_MATRIX, "GSL bfgs2": WHOLE_MATRIX, "*": SEARCHES},
    "Rosenbrock in pairs*": {"*": SEARCHES},
    "30 problems*": {
        "SciPy TNC": "It takes truncated Newton steps, whose inner products with the Hessian are differences of gradients; where it is ahead the problem is nearly "
                     "quadratic. The chain `box | newton_cg` does the same here.",
        "IPOPT": "It is an interior-point method: it does not find out bound by bound which are active. None of the chains here is one; an interior-point link "
                 "would change it.",
        "SciPy L-BFGS-B": SEARCHES,
        "*": AROUND},
    "A quadratic*": {
        "SciPy TNC": "It takes truncated Newton steps, which suit a quadratic better than pairs of vectors. The chain `box | newton_cg` does the same here.",
        "*": SEARCHES},
    "NIST*": {"*": "It takes more evaluations and less time for each: residuals and Jacobian come in one call, and gradus keeps the graph of them for terms of second order "
                   "along steps that the trust region holds back (they follow the curved valleys that others give up in) and for the Newton steps at the end "
                   "(10.7 digits). With those terms only after two poor steps all 54 are still solved, in GSL's time and with 2.2 times the evaluations."},
    "fit": {"GSL": BY_HAND,
            "Ceres": BY_HAND + " It was also let solve normal equations, half the work of the QR that gradus takes, and half of its digits.",
            "SciPy": MORE_THAN_A_FIT,
            "lmfit": MORE_THAN_A_FIT},
}
