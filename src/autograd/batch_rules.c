#include "autograd/batch_rules.h"
#include "autograd/rules.h"

#include <string.h>

#define gd__batch_none NULL
gd_batch_fn *const gd__batch_rules[GD_OP_COUNT] = {
#define OP(name, nin, nout, kind, needs, takes, batch, reads) gd__batch_##batch,
#define OP0(name, ...)                                        NULL,
#include "tensor/ops.def"
};

#define BATCH(name) gd_status gd__batch_##name(const gd_batch_step *s, gd_part *p)
#define X           (s->node->in[s->k]) /* the operand */
#define ATTR(i_)    (s->node->i[i_])

static gd_status made(const gd_batch_step *s, const gd_part *p)
{
    return p->value ? GD_OK : gd_error(s->node->ctx);
}

/* ---- element-wise operators: operands may have been broadcast ---- */

static gd_status met(const gd_batch_step *s, gd_part *p, gd_tensor *value)
{
    p->value = value;
    return value ? gd__part_of_expand(p, X) : gd_error(s->node->ctx);
}

/* g times the derivative, at the places of p; g has the shape of those. */
static gd_tensor *ruled(const gd_batch_step *s, const gd_part *p, gd_tensor *g)
{
    gd_node here = *s->node;
    gd_tensor *in[3] = {NULL}, *out = NULL, *set[3] = {NULL}, shapes[3];
    bool need[3] = {false};
    uint8_t needs = gd__ops[here.op].needs;
    need[s->k] = true;
    for (int i = 0; i < here.nin; i++) {
        if (needs >> i & 1) {
            in[i] = gd__part_look(p, here.in[i]);
            if (!in[i]) return NULL;
        } else {
            /* only its shape is read */
            shapes[i] = *here.in[i];
            shapes[i].ndim = g->ndim;
            memcpy(shapes[i].size, g->size, sizeof g->size);
            shapes[i].axes = NULL;
            in[i] = &shapes[i];
        }
    }
    if (here.out[0] && !(out = gd__part_look(p, here.out[0]))) return NULL;
    here.in = in;
    here.out = &out;
    gd__rules[here.op](&(gd_pullback){.node = &here, .grad = &g, .need = need, .set = set});
    return set[s->k];
}

/* By the gradient rule.  If p has axes in front, the derivative is made once for all of them. */
BATCH(slope)
{
    const gd_tensor *v = p->value;
    int lead = gd__part_lead(p);
    if (!lead) return met(s, p, ruled(s, p, p->value));
    gd_tensor *one = gd_empty_on(v->storage->device, v->dtype, p->ndim, v->size + lead);
    bool filled = one && gd_fill(one, 1) == GD_OK;
    return met(s, p, filled ? gd_mul(p->value, ruled(s, p, one)) : NULL);
}

/* Shorter ways to the same. */
BATCH(same) { return met(s, p, p->value); }
BATCH(neg) { return met(s, p, gd_neg(p->value)); }
BATCH(sub) { return met(s, p, s->k ? gd_neg(p->value) : p->value); }
BATCH(mul) { return met(s, p, gd_mul(p->value, gd__part_look(p, s->node->in[1 - s->k]))); }
BATCH(mul_scalar) { return met(s, p, gd_mul_scalar(p->value, s->node->f[0])); }

BATCH(cast)
{
    p->value = gd_cast(p->value, X->dtype);
    return made(s, p);
}

/* ---- operators that move or add elements ---- */

static const char *axis_text(int64_t axis, char buf[2])
{
    buf[0] = (char)('0' + axis);
    buf[1] = 0;
    return buf;
}

/* Attributes 3 and 4 are the first and last reduced axis. */
BATCH(sum) { return gd__part_of_sum(p, X, (int)ATTR(3), (int)ATTR(4)); }

BATCH(logsumexp)
{
    int64_t size[3] = {ATTR(0), ATTR(1), ATTR(2)};
    gd_status status = gd__batch_sum(s, p);
    if (status) return status;
    gd_tensor *share = gd_softmax(gd__reshape(gd__nameless(X), 3, size), "1");
    share = gd__reshape(share, X->ndim, X->size);
    p->value = share ? gd_mul(p->value, gd__part_look(p, share)) : NULL;
    return made(s, p);
}

BATCH(reshape) { return gd__part_of_reshape(p, s->result, X); }
BATCH(expand) { return gd__part_of_expand(p, X); }
BATCH(permute) { return gd__part_of_permute(p, s->node->i); }
BATCH(slice) { return gd__part_of_slice(p, (int)ATTR(0), ATTR(1), ATTR(2), s->node->ni > 3); }

BATCH(embed)
{
    gd_status status = GD_OK;
    for (int i = 0; i < X->ndim && !status; i++)
        status = gd__part_of_embed(p, s->result, i, ATTR(i), X->size[i], ATTR(X->ndim + i));
    return status;
}

BATCH(cat)
{
    int axis = (int)ATTR(0);
    int64_t start = 0;
    for (int i = 0; i < s->k; i++) start += s->node->in[i]->size[axis];
    return gd__part_of_embed(p, s->result, axis, start, X->size[axis], 1);
}

/* ---- operators on whole matrices: gradients with one axis more, in front ---- */

static bool is_whole(const gd_batch_step *s, const gd_part *p)
{
    return gd__part_is_whole(p, s->result, s->rows);
}

static gd_status became(const gd_batch_step *s, gd_part *p, gd_tensor *value)
{
    if (!value) return gd_error(s->node->ctx);
    *p = gd__part_whole(value);
    return GD_OK;
}

BATCH(cumsum)
{
    if (!is_whole(s, p)) return GD_NOT_IMPLEMENTED;
    return became(s, p, gd__cumsum(p->value, (int)ATTR(3) + 1, !ATTR(5)));
}

BATCH(softmax)
{
    if (!is_whole(s, p)) return GD_NOT_IMPLEMENTED;
    char there[2];
    gd_tensor *y = gd__nameless(s->node->out[0]), *gy = gd_mul(p->value, y);
    gy = gd_sub(gy, gd_mul(gd_sum(gy, axis_text(ATTR(4) + 1, there), true), y));
    return became(s, p, s->node->f[0] == 1 ? gy : gd_mul_scalar(gy, s->node->f[0]));
}

BATCH(log_softmax)
{
    if (!is_whole(s, p)) return GD_NOT_IMPLEMENTED;
    char there[2];
    gd_tensor *y = gd__nameless(s->node->out[0]), *g = p->value;
    return became(s, p, gd_sub(g, gd_mul(gd_sum(g, axis_text(ATTR(4) + 1, there), true), gd_exp(y))));
}

/* A vector by an index, of rows that each have one entry: their places in the vector are the index. */
static gd_status selected_rows(const gd_batch_step *s, gd_part *p)
{
    gd_ctx *ctx = s->node->ctx;
    gd_dtype dtype = p->value->dtype;
    gd_tensor *index = gd__part_look(p, gd__nameless(s->node->in[1]));
    gd_tensor *places = gd_to_device(gd_arange(ctx, GD_I64, 0, (double)X->numel, 1), X->storage->device);
    gd_tensor *there = index && places ? gd_eq(gd_unsqueeze(index, 1, NULL), gd_cast(places, index->dtype))
                                       : NULL;
    p->value = there ? gd_mul(gd_unsqueeze(p->value, 1, NULL), gd_cast(there, dtype)) : NULL;
    p->stride[1] = 0;
    p->start[0] = 0;
    p->step[0] = 1;
    return made(s, p);
}

BATCH(index_select)
{
    bool apart = X->ndim == 1 && p->ndim == 1 && gd__part_lead(p) == 0 &&
                 (p->stride[0] || p->value->numel == 1);
    if (apart && X->numel <= gd__batch_most(s->limit, X->numel) / p->value->numel) return selected_rows(s, p);
    if (!is_whole(s, p)) return GD_NOT_IMPLEMENTED;
    int64_t size[GD_MAX_DIMS] = {s->rows};
    memcpy(size + 1, X->size, (size_t)X->ndim * sizeof *size);
    gd_tensor *g = p->value, *zeros = gd_empty_on(g->storage->device, g->dtype, X->ndim + 1, size);
    bool filled = zeros && gd_fill(zeros, 0) == GD_OK;
    return became(s, p,
                  filled ? gd__index_add(zeros, (int)ATTR(0) + 1, gd__nameless(s->node->in[1]), g) : NULL);
}

/* ---- products ---- */

/* The part of one factor of a product, the other one being on its right or left. */
static gd_status product_part(const gd_batch_step *s, gd_part *p, gd_tensor *other, bool right)
{
    other = gd__nameless(other);
    if (X->ndim > 2) { /* stacks of matrices */
        if (!is_whole(s, p)) return GD_NOT_IMPLEMENTED;
        other = gd_transpose(other, -1, -2);
        return became(s, p, right ? gd_matmul(p->value, other) : gd_matmul(other, p->value));
    }
    int64_t most = gd__batch_most(s->limit, X->numel);
    return right ? gd__part_of_right_product(p, s->result, gd_transpose(other, 0, 1), most)
                 : gd__part_of_left_product(p, s->result, other, most);
}

BATCH(matmul) { return product_part(s, p, s->node->in[1 - s->k], s->k == 0); }

BATCH(addmm)
{
    p->value = gd_mul_scalar(p->value, s->node->f[s->k > 0]);
    if (!p->value) return gd_error(s->node->ctx);
    return s->k == 0 ? met(s, p, p->value) : product_part(s, p, s->node->in[3 - s->k], s->k == 1);
}

/* x w^T and a bias */
BATCH(linear)
{
    if (s->k == 2) return gd__part_of_expand(p, X);
    gd_tensor *other = gd__nameless(s->node->in[1 - s->k]);
    int64_t most = gd__batch_most(s->limit, X->numel);
    if (s->k == 0) return gd__part_of_right_product(p, s->result, other, most);
    gd_status status = gd__part_of_left_product(p, s->result, other, most);
    return status ? status : gd__part_of_permute(p, (int64_t[]){1, 0});
}
