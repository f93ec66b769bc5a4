/* Models from a short text, for gradus train:
 *
 *   linear
 *   mlp(64, 64)      mlp(64, 64, activation=tanh, dropout=0.1)
 *   conv(16, 32)     conv(16, 32, kernel=3, pool=2, dense=[64], activation=relu, dropout=0)
 *
 * conv: for each number a convolution to so many channels that keeps height and width, the activation and a max pool; then
 * dense layers.  Every model ends in a linear layer to as many outputs as the data has.  Layers are called conv0, ..., dense0,
 * ..., out: names for --group.  If rows have codes (learnt_columns.h), tables embed0, ... turn each into numbers first. */
#ifndef GD_TRAIN_NETWORK_H
#define GD_TRAIN_NETWORK_H

#include "train/data/learnt_columns.h"
#include "gradus/module.h"

#define GD_NETWORK_SIZES  16      /* numbers of a list */
#define GD_NETWORK_WIDEST 1000000 /* the largest of them */

typedef struct gd_network_spec {
    int64_t conv[GD_NETWORK_SIZES], dense[GD_NETWORK_SIZES];
    int convs, denses;
    int64_t kernel, pool;
    double dropout;
    char activation[16];
    const gd_columns *columns; /* encoding of a row; borrowed, NULL: numbers only. Not part of the text */
} gd_network_spec;

/* Reads the text.  PARSE: "model: column 5: ..." */
GD_NODISCARD gd_status gd__network_parse(gd_ctx *ctx, const char *text, gd_network_spec *out);
/* Writes it so that it reads back as an equal model. */
void gd__network_print(gd_text *out, const gd_network_spec *spec);

typedef struct gd_network {
    gd_network_spec spec;
    gd_module *module;                          /* owns the layers */
    gd_module *layer[2 * GD_NETWORK_SIZES + 1]; /* convolutions, dense layers, the last; borrowed */
    gd_module **embed;                          /* of each code, borrowed */
    int64_t embeds;
    int64_t row[GD_MAX_DIMS]; /* the shape of a row for the first layer */
    int row_axes;
} gd_network;

/* Makes the layers, with initial values from the context's generator, for rows of that shape.  SHAPE when a convolution
 * cannot take them.  gd__network_close also after a failure. */
GD_NODISCARD gd_status gd__network_open(gd_ctx *ctx, const gd_network_spec *spec, int row_axes,
                                        const int64_t *row, int64_t outputs, gd_dtype dtype, gd_network *out);
void gd__network_close(gd_network *model);
/* Outputs [rows, outputs] for [rows, ...].  Dropout only while training.  New. */
gd_tensor *gd__network_call(const gd_network *model, gd_tensor *x, bool training);
int64_t gd__network_parameters(const gd_network *model);
/* The number of parameters of such a model, without building it; NAN for unsupported rows. */
double gd__network_numbers(const gd_network_spec *spec, int row_axes, const int64_t *row, int64_t outputs);

#endif
