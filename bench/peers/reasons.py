"""Why a peer is ahead of gradus at a piece of work, and what would change it.  By the name of the work (a * at its end: those that begin
so) or of its group; then by the label of the side, or * for all.  The first that fits is taken."""

COMPILED = ("XLA compiles the whole function with its derivatives into loops that keep what is between in registers; gradus runs operator by operator, "
            "and each writes its result to memory. A function that is recorded once and replayed as fused programs, as chains of links are, would "
            "change it.")
WHOLE_MATRIX = ("It keeps a whole matrix, n^2 numbers, where gradus's default remembers ten pairs of vectors: fewer evaluations on problems of few numbers. "
                "The chain `bfgs | strong_wolfe` does the same here.")
BY_HAND = ("Its residuals and Jacobian are one loop of C that somebody wrote by hand, derivatives included; gradus makes both from operators, some forty "
           "of which start for every range of rows. An expression compiled into one program, as chains of links are, would change it.")
MORE_THAN_A_FIT = ("It ends where MINPACK does; gradus then polishes the last digits with Newton steps, looks whether the end is a saddle and at what the data "
                   "determine, which takes as long as the fit where rows are few. `gd_fit_options.polish` and `.leave_saddles` turn that off.")
SEARCHES = ("It is the same kind of method with another first step and another search along the line, which suits some of the problems better and others "
            "worse. A search that tries a longer first step where the gradient is small would save evaluations on the well-scaled ones.")

REASONS = {
    "gradient*": {"Optax": COMPILED},
    "Hessian-vector product*": {"Optax": COMPILED + " It also goes forward over reverse, which records no second graph; gradus goes reverse over reverse."},
    "Hessian, *": {"Optax": COMPILED},
    "Convolutional network*": {
        "PyTorch": "oneDNN convolves pictures where they lie, in layouts made for its kernels, and pools in one pass. gradus copies every window out (nine "
                   "times the picture for 3 x 3) and multiplies, forward and backward, and pools over windows copied out too. Direct kernels for 3 x 3 and "
                   "a pooling without copies would change it.",
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
    "115 problems*": {"SciPy BFGS": WHOLE_MATRIX, "GSL bfgs2": WHOLE_MATRIX, "*": SEARCHES},
    "Chained Rosenbrock*": {"SciPy BFGS": WHOLE_MATRIX, "GSL bfgs2": WHOLE_MATRIX, "*": SEARCHES},
    "Rosenbrock in pairs*": {"*": SEARCHES},
    "30 problems*": {
        "SciPy TNC": "It takes truncated Newton steps, whose inner products with the Hessian are differences of gradients; where it is ahead the problem is nearly "
                     "quadratic. The chain `box | newton_cg` does the same here.",
        "IPOPT": "It is an interior-point method: it does not find out bound by bound which are active. None of the chains here is one; an interior-point link "
                 "would change it.",
        "*": SEARCHES},
    "A quadratic*": {
        "SciPy TNC": "It takes truncated Newton steps, which suit a quadratic better than pairs of vectors. The chain `box | newton_cg` does the same here.",
        "*": SEARCHES},
    "NIST*": {"*": "Its steps reach the target of some problems sooner. gradus begins with a smaller trust region and corrects steps to second order, which is "
                   "what solves all 54; a larger first region would save evaluations where the start is good."},
    "fit": {"GSL": BY_HAND,
            "Ceres": BY_HAND + " It was also let solve normal equations, half the work of the QR that gradus takes, and half of its digits.",
            "SciPy": MORE_THAN_A_FIT,
            "lmfit": MORE_THAN_A_FIT},
}
