/* Well-known optimizers as chains: names with settings for the text of a chain (gd_link_class, preset). */
#include "gradus/link.h"

#include <math.h>

#define LR GD_REAL("lr", 1e-3, -INFINITY, INFINITY, "step size")
#define BETAS                                                   \
    GD_REAL("beta1", 0.9, 0, 1, "of the average of gradients"), \
        GD_REAL("beta2", 0.999, 0, 1, "of the average of their squares")
#define WEIGHT_DECAY "weight_decay: weight_decay($weight_decay) | "

/* Stochastic gradient descent; the first velocity is the first gradient, whatever the dampening, as in PyTorch. */
static const gd_field sgd_fields[] = {
    LR,
    GD_REAL("momentum", 0, -INFINITY, INFINITY, "0: no velocity is kept"),
    GD_REAL("dampening", 0, -INFINITY, INFINITY, "part of the gradient kept out of the velocity"),
    GD_REAL("weight_decay", 0, -INFINITY, INFINITY, "added to the gradient, before the momentum"),
    GD_FLAG("nesterov", false, "Nesterov's momentum"),
};

GD_LINK(presets, sgd,
    .summary = "stochastic gradient descent with momentum",
    .paper = "Sutskever et al. 2013, On the importance of initialization and momentum in deep learning",
    GD_FIELDS(sgd_fields),
    .preset = WEIGHT_DECAY
    "momentum: nesterov: nag($momentum, dampening=$dampening) | "
    "momentum: !nesterov: heavy_ball($momentum, dampening=$dampening, ema_init=\"first\") | "
    "lr($lr)");

static const gd_field adamw_fields[] = {
    LR,
    BETAS,
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the root"),
    GD_REAL("weight_decay", 0.01, -INFINITY, INFINITY, "decoupled: times lr, not through the moments"),
    GD_FLAG("amsgrad", false, "divide by the largest average so far"),
    GD_CHOICE("eps_at", "raw", "raw|corrected",
              "add eps before or after the bias correction (PyTorch: corrected)"),
};

GD_LINK(presets, adamw,
    .summary = "Adam with decoupled weight decay",
    .paper = "Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization",
    GD_FIELDS(adamw_fields),
    .preset = "adam($beta1, $beta2, $eps, amsgrad=$amsgrad, eps_at=$eps_at) | " WEIGHT_DECAY "lr($lr)");

static const gd_field lamb_fields[] = {
    LR,
    BETAS,
    GD_REAL("eps", 1e-6, 0, INFINITY, "added to the corrected root"),
    GD_REAL("weight_decay", 0.01, -INFINITY, INFINITY, "added to the update before its norm is taken"),
};

GD_LINK(presets, lamb,
    .summary = "Adam with steps in proportion to the norms of tensors, for large batches",
    .paper = "You et al. 2020, Large batch optimization for deep learning: training BERT in 76 minutes",
    GD_FIELDS(lamb_fields),
    .preset = "adam($beta1, $beta2, $eps, eps_at=\"corrected\") | " WEIGHT_DECAY "trust_ratio | lr($lr)");

static const gd_field lars_fields[] = {
    GD_REAL("lr", 1, -INFINITY, INFINITY, "step size"),
    GD_REAL("momentum", 0.9, -INFINITY, INFINITY, "0: no velocity is kept"),
    GD_REAL("eta", 1e-3, 0, INFINITY, "share of the norm of a tensor that a step takes"),
    GD_REAL("weight_decay", 0, 0, INFINITY, "added to the gradient, and its norm to that of the gradient"),
};

GD_LINK(presets, lars,
    .summary = "momentum with steps in proportion to the norms of tensors, for large batches",
    .paper = "You, Gitman & Ginsburg 2017, Large batch training of convolutional networks",
    GD_FIELDS(lars_fields),
    .preset = "trust_ratio($eta, weight_decay=$weight_decay) | "
              "momentum: heavy_ball($momentum, ema_init=\"zeros\") | lr($lr)");

static const gd_field nadamw_fields[] = {
    LR,
    BETAS,
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the corrected root"),
    GD_REAL("weight_decay", 0.01, -INFINITY, INFINITY, "decoupled: times lr, not through the moments"),
    GD_REAL("momentum_decay", 0.004, 0, INFINITY,
            "rate at which the momentum grows to beta1; 0: it is beta1"),
};

GD_LINK(presets, nadamw,
    .summary = "Adam with Nesterov's look-ahead and decoupled weight decay",
    .paper = "Dozat 2016, Incorporating Nesterov momentum into Adam; Loshchilov & Hutter 2019",
    GD_FIELDS(nadamw_fields),
    .preset = "nadam($beta1, $beta2, $eps, momentum_decay=$momentum_decay) | " WEIGHT_DECAY "lr($lr)");

/* Updates of matrices have the size of Adam's (adjust_lr), so that one step size and decay serve all parameters. */
static const gd_field muon_fields[] = {
    LR,
    GD_REAL("momentum", 0.95, -INFINITY, INFINITY, "of the matrices, Nesterov's"),
    GD_REAL("weight_decay", 0.01, -INFINITY, INFINITY, "decoupled: times lr"),
    GD_INT("ns_steps", 5, 0, 1000, "iterations of Newton-Schulz"),
    GD_FLAG("adjust_lr", true,
            "matrices times 0.2 sqrt(max(rows, columns)), which makes their updates as large as Adam's"),
    GD_REAL("beta1", 0.9, 0, 1, "of Adam's average of gradients"),
    GD_REAL("beta2", 0.999, 0, 1, "of Adam's average of squares"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to Adam's root"),
    {.name = "filter",
     .kinds = GD_SET_STRING,
     .fallback = {.kind = GD_SET_STRING, .string = "axes>=2"},
     .selection = true,
     .help = "the parameters that are orthogonalized, as split has it; the rest are Adam's"},
};

GD_LINK(presets, muon,
    .summary = "momentum made orthogonal for matrices, Adam for the rest",
    .paper =
        "Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks; Liu et al. 2025 for adjust_lr",
    GD_FIELDS(muon_fields),
    .preset = "split($filter, [nag($momentum) | orthogonalize($ns_steps, adjust_lr=$adjust_lr)], "
              "adam($beta1, $beta2, $eps)) | " WEIGHT_DECAY "lr($lr)");
