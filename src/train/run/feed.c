/* Data in blocks; see job.h.
 *
 * Blocks are shuffled among each other every epoch, and POOL of them at a time are in memory, whose rows are shuffled: rows adjacent in the file
 * are seldom in one batch, and memory does not depend on the file. */
#include "train/run/job.h"
#include "train/data/stream.h"

#include <stdlib.h>
#include <string.h>

#define POOL         64 /* blocks */
#define CHECK_BLOCKS 32 /* at most so many are used for validation */
#define BLOCK_STREAM ((int64_t)1 << 22)

typedef gd_train_job job;

struct gd_train_stream {
    job *j;
    gd_row_stream s;
    gd_feed feed;
    int64_t *block; /* validation blocks, then training blocks */
    int64_t *next;  /* training blocks in the order of an epoch */
    int64_t check, learn;
    size_t bytes;
};

int64_t gd__train_stream_rows(const job *j) { return j->stream->s.rows; }
int64_t gd__train_stream_blocks(const job *j) { return j->stream->s.blocks; }
uint64_t gd__train_stream_sum(const job *j)
{
    return (j->stream->s.size + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)j->stream->s.rows;
}

void gd__train_stream_close(job *j)
{
    gd_train_stream *m = j->stream;
    if (!m) return;
    gd__free(j->t.ctx, m->block, m->block ? m->bytes : 0);
    gd__free(j->t.ctx, m->next, m->next ? m->bytes : 0);
    gd__stream_close(&m->s);
    gd__free(j->t.ctx, m, sizeof *m);
    j->stream = NULL;
}

/* ---- blocks as tensors ---- */

/* One block in the model's encoding.  x and y are new. */
static gd_status read_block(gd_train_stream *m, int64_t k, gd_tensor **x, gd_tensor **y)
{
    static const gd_scaling as_it_is;
    const gd_checkpoint *c = &m->j->t.point;
    const gd_recipe *r = &c->recipe;
    gd_tensor *raw_x, *raw_y;
    int64_t shape[GD_MAX_DIMS] = {0};
    gd_status status = gd__stream_read(&m->s, k, &r->columns, &m->j->data, &raw_x, &raw_y);
    if (status) return status;
    shape[0] = gd_size(raw_x, 0);
    memcpy(shape + 1, r->row, (size_t)r->row_axes * sizeof *shape);
    gd__aside_begin(c->ctx);
    *x = gd_keep(gd__scaling_apply(&c->input, gd_reshape(raw_x, r->row_axes + 1, shape), r->dtype));
    *y = gd_keep(
        r->task != GD_TASK_REGRESS
            ? gd_contiguous(raw_y)
            : gd__scaling_apply(r->loss.kind == GD_LOSS_POISSON ? &as_it_is : &c->output, raw_y, r->dtype));
    gd__aside_end(c->ctx);
    gd_release(raw_x);
    gd_release(raw_y);
    if (*x && *y) return GD_OK;
    gd_release(*x);
    gd_release(*y);
    return gd_error(c->ctx);
}

/* Some blocks as one tensor each, on the device. */
static gd_status read_blocks(gd_train_stream *m, const int64_t *blocks, int64_t count, gd_tensor **x,
                             gd_tensor **y)
{
    gd_trainer *t = &m->j->t;
    gd_tensor *piece[2][POOL > CHECK_BLOCKS ? POOL : CHECK_BLOCKS] = {{0}};
    gd_status status = GD_OK;
    int64_t done = 0;
    for (; done < count && !status; done++)
        status = read_block(m, blocks[done], &piece[0][done], &piece[1][done]);
    gd__aside_begin(t->ctx);
    *x = status ? NULL : gd_keep(gd_to_device(gd_cat(piece[0], (int)count, "0"), t->device));
    *y = status ? NULL : gd_keep(gd_to_device(gd_cat(piece[1], (int)count, "0"), t->device));
    gd__aside_end(t->ctx);
    for (int64_t i = 0; i < (status ? done - 1 : done); i++) {
        gd_release(piece[0][i]);
        gd_release(piece[1][i]);
    }
    if (!status && (!*x || !*y)) status = gd_error(t->ctx);
    if (!status) return GD_OK;
    gd_release(*x);
    gd_release(*y);
    *x = *y = NULL;
    return status;
}

/* ---- pools ---- */

/* The blocks of a pool, borrowed; *count of them. */
static const int64_t *pool_blocks(gd_train_stream *m, int64_t epoch, int64_t pool, int64_t *count)
{
    const gd_trainer *t = &m->j->t;
    gd__shuffle(m->next, m->learn, t->point.recipe.seed + t->shift, BLOCK_STREAM + epoch);
    int64_t first = pool * POOL;
    *count = first + POOL < m->learn ? POOL : m->learn - first;
    for (int64_t i = first; i < first + *count; i++) m->next[i] = m->block[m->check + m->next[i]];
    return m->next + first;
}

static int64_t pool_rows(void *user, int64_t epoch, int64_t pool)
{
    gd_train_stream *m = user;
    int64_t count, rows = 0;
    const int64_t *blocks = pool_blocks(m, epoch, pool, &count);
    for (int64_t i = 0; i < count; i++) rows += m->s.block[blocks[i]].rows;
    return rows;
}

static gd_status load_pool(void *user, int64_t epoch, int64_t pool, gd_tensor **x, gd_tensor **y)
{
    gd_train_stream *m = user;
    int64_t count;
    const int64_t *blocks = pool_blocks(m, epoch, pool, &count);
    return read_blocks(m, blocks, count, x, y);
}

gd_status gd__train_stream_begin(job *j)
{
    gd_train_stream *m = j->stream;
    gd_trainer *t = &j->t;
    gd_status status = m->check ? read_blocks(m, m->block, m->check, &t->check_x, &t->check_y) : GD_OK;
    if (status) return status;
    if (!m->check) gd__checkpoint_free_copies(&t->point, &t->point.best); /* as without blocks */
    t->check_rows = m->check ? gd_size(t->check_x, 0) : 0;
    t->rows = m->s.rows - t->check_rows;
    m->feed = (gd_feed){
        .user = m, .pools = (m->learn + POOL - 1) / POOL, .rows = pool_rows, .load = load_pool};
    t->feed = &m->feed;
    return GD_OK;
}

/* ---- opening ---- */

static int compare_blocks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Selects the validation blocks: at least one if validation is requested, never all. */
static gd_status split_blocks(gd_train_stream *m)
{
    const gd_recipe *r = &m->j->t.point.recipe;
    gd_ctx *ctx = m->j->t.ctx;
    int64_t blocks = m->s.blocks;
    double share = r->validation * (double)blocks > CHECK_BLOCKS ? (double)CHECK_BLOCKS / (double)blocks
                                                                 : r->validation;
    if (share > 0 && share * (double)blocks < 1) share = 1.5 / (double)blocks;
    if (blocks < 2) share = 0;
    m->bytes = (size_t)blocks * sizeof *m->block;
    m->block = gd__alloc(ctx, m->bytes);
    m->next = m->block ? gd__alloc(ctx, m->bytes) : NULL;
    if (!m->next) return GD_NOMEM;
    gd_status status = gd__split_rows(ctx, m->block, blocks, r->seed, share, &(gd_classes){0}, &m->check);
    m->learn = blocks - m->check;
    if (m->j->split.kind != GD_SPLIT_ORDERED) return status;
    /* the last blocks of the file to validate with, the others in any order: some of them are the sample */
    for (int64_t i = 0; i < m->check; i++) m->block[i] = m->learn + i;
    gd__shuffle(m->block + m->check, m->learn, r->seed, 0);
    return status;
}

static gd_status open_sample(gd_train_stream *m, const gd_data_request *q)
{
    int64_t blocks[GD_SAMPLE_BLOCKS], count = m->learn < GD_SAMPLE_BLOCKS ? m->learn : GD_SAMPLE_BLOCKS;
    for (int64_t i = 0; i < count; i++) blocks[i] = m->block[m->check + i]; /* they are shuffled */
    qsort(blocks, (size_t)count, sizeof *blocks, compare_blocks);
    return gd__stream_sample(&m->s, q, blocks, count, &m->j->data);
}

/* The classes of all rows may be more than the sample's: those of its rows get their new numbers. */
static gd_status renumber(job *j, const gd_words *before)
{
    gd_dataset *d = &j->data;
    int64_t *y = gd_data_mut(d->y);
    for (int64_t i = 0; i < d->rows; i++) y[i] = gd__words_find(&d->classes, before->word[y[i]]);
    return GD_OK;
}

static gd_status survey(gd_train_stream *m)
{
    job *j = m->j;
    gd_dataset *d = &j->data;
    gd_words before = d->classes;
    bool classes = m->s.table && d->task == GD_TASK_CLASSIFY && !j->resume;
    if (classes) d->classes = (gd_words){0};
    gd_status status = gd__stream_survey(&m->s, d, &j->t.point.recipe.columns, j->resume != NULL);
    if (!status && classes) status = renumber(j, &before);
    if (classes) gd__words_free(j->t.ctx, &before);
    return status;
}

gd_status gd__train_stream_open(job *j, const gd_data_request *q)
{
    gd_train_stream *m = j->stream = gd__calloc(j->t.ctx, sizeof *m);
    if (!m) return GD_NOMEM;
    m->j = j;
    m->s.ctx = j->t.ctx;
    gd_status status = gd__stream_open(j->t.ctx, q, &m->s);
    if (!status) status = split_blocks(m);
    if (!status) status = open_sample(m, q);
    if (!status) status = gd__dataset_encode(&j->data, &j->t.point.recipe.columns, NULL, 0);
    return status ? status : survey(m);
}
