/* Traces; see run_log.h. */
#include "file/run_log.h"
#include "base/text/json.h"
#include "file/input.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE ((uint64_t)1 << 36)
#define KEEP     65536

/* ---- writing ---- */

/* The elements of axis `axis` on, row-major from *next. */
static void nested(gd_text *out, const gd_tensor *t, int axis, const double **next)
{
    if (axis == gd_ndim(t)) {
        gd__json_number(out, *(*next)++);
        return;
    }
    gd__text_char(out, '[');
    for (int64_t i = 0; i < gd_size(t, axis); i++) {
        if (i) gd__text_char(out, ',');
        nested(out, t, axis + 1, next);
    }
    gd__text_char(out, ']');
}

#define MANY_ROWS 1000 /* rows without elements that are written */

static double empty_rows(const gd_tensor *t)
{
    double rows = 1;
    for (int i = 0; i < gd_ndim(t) && gd_size(t, i); i++) rows *= (double)gd_size(t, i);
    return rows;
}

gd_status gd__json_tensor(gd_text *out, const gd_tensor *t)
{
    double few[16], *values = few;
    int64_t count = gd_numel(t);
    size_t bytes = (size_t)count * sizeof *values;
    if (count > 16 && !(values = gd__alloc(out->ctx, bytes))) return GD_NOMEM;
    gd_status status = gd_read_f64(t, values, count);
    const double *next = values;
    if (!status && (count || empty_rows(t) <= MANY_ROWS))
        nested(out, t, 0, &next);
    else if (!status)
        gd__text_add(out, "[]"); /* its rows may be more than a disk holds */
    if (values != few) gd__free(out->ctx, values, bytes);
    return status ? status : out->failed ? GD_NOMEM : GD_OK;
}

static void put_numbers(gd_text *out, const gd_run_numbers *n)
{
    gd__text_put(out, "{\"step\":%lld,\"loss\":", (long long)n->step);
    gd__json_number(out, n->loss);
    if (!isnan(n->loss_after)) {
        gd__text_add(out, ",\"loss_after\":");
        gd__json_number(out, n->loss_after);
    }
    gd__text_put(out, ",\"evals\":%lld,\"params\":{", (long long)n->evals);
}

static gd_status put_params(gd_text *out, const char *const *names, gd_tensor *const *params, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        if (i) gd__text_char(out, ',');
        gd__json_string(out, names[i]);
        gd__text_char(out, ':');
        status = gd__json_tensor(out, params[i]);
    }
    gd__text_add(out, "}}\n");
    return status ? status : out->failed ? GD_NOMEM : GD_OK;
}

gd_status gd__run_log_line(gd_text *out, const gd_run_numbers *numbers, const char *const *names,
                           gd_tensor *const *params, int count)
{
    put_numbers(out, numbers);
    return put_params(out, names, params, count);
}

struct gd_run_writer {
    gd_ctx *ctx;
    char *path;
    gd_text buffer;
    gd_text held; /* the parameters of a line whose loss is not known yet: that of the next step is */
    gd_run_numbers numbers; /* the rest of it */
    int fd;
    bool regular;
    off_t whole; /* bytes of whole lines in the file */
};

static gd_run_writer *open_trace(gd_ctx *ctx, const char *path, int flags, off_t whole)
{
    gd_run_writer *t = gd__calloc(ctx, sizeof *t);
    if (!t) return NULL;
    *t = (gd_run_writer){
        .ctx = ctx, .buffer = gd__text(ctx), .held = gd__text(ctx), .fd = -1, .path = gd__strdup(ctx, path)};
    if (t->path) {
        struct stat info;
        t->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
        if (t->fd < 0) (void)gd__io_error(ctx, path, "open", errno);
        t->regular = t->fd >= 0 && fstat(t->fd, &info) == 0 && S_ISREG(info.st_mode);
    }
    t->whole = whole;
    if (t->fd >= 0 &&
        (!t->regular || !whole || (ftruncate(t->fd, whole) == 0 && lseek(t->fd, 0, SEEK_END) >= 0)))
        return t;
    if (t->fd >= 0) (void)gd__io_error(ctx, path, "shorten", errno);
    (void)gd__run_writer_close(t);
    return NULL;
}

gd_run_writer *gd__run_writer_open(gd_ctx *ctx, const char *path)
{
    return open_trace(ctx, path, O_TRUNC, 0);
}

/* The step of a line; -1: it is not a line of a trace. */
static int64_t step_of(const char *line, size_t length)
{
    json_t *object = gd__json_read(line, length, NULL);
    const json_t *step = json_object_get(object, "step");
    int64_t number = json_is_integer(step) ? json_integer_value(step) : -1;
    json_decref(object);
    return number;
}

gd_run_writer *gd__run_writer_resume(gd_ctx *ctx, const char *path, int64_t step)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return gd__run_writer_open(ctx, path);
    char *data;
    size_t size, block, kept = 0;
    if (gd__read_input(ctx, path, NULL, MAX_FILE, NULL, &data, &size, &block)) return NULL;
    bool good = true;
    for (const char *end; good && (end = memchr(data + kept, '\n', size - kept));) {
        int64_t number = step_of(data + kept, (size_t)(end - data) - kept);
        good = number >= 0;
        if (!good || number > step) break;
        kept = (size_t)(end - data) + 1;
    }
    gd__free(ctx, data, block);
    if (!good) return gd__refuse(ctx, GD_FORMAT, "%s: not a trace that can be continued", path);
    return open_trace(ctx, path, kept ? 0 : O_TRUNC, (off_t)kept);
}

gd_text *gd__run_writer_begin(gd_run_writer *t) { return &t->buffer; }

static gd_status write_lines(gd_run_writer *t)
{
    for (size_t at = 0; at < t->buffer.used;) {
        ssize_t put = write(t->fd, t->buffer.data + at, t->buffer.used - at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            gd_status status = gd__io_error(t->ctx, t->path, "write", errno);
            if (t->regular && ftruncate(t->fd, t->whole) != 0) status = GD_IO;
            gd__text_clear(&t->buffer);
            return status;
        }
        at += (size_t)put;
    }
    t->whole += (off_t)t->buffer.used;
    gd__text_clear(&t->buffer);
    return GD_OK;
}

/* Sets the loss of the pending line; NAN: unknown. */
static gd_status release_line(gd_run_writer *t, double loss)
{
    if (!t->held.used) return GD_OK;
    *(t->numbers.step ? &t->numbers.loss_after : &t->numbers.loss) = loss;
    put_numbers(&t->buffer, &t->numbers);
    gd__text_add(&t->buffer, t->held.data);
    gd__text_clear(&t->held);
    return t->buffer.failed ? GD_NOMEM : GD_OK;
}

gd_status gd__run_writer_start(gd_run_writer *t, const char *const *names, gd_tensor *const *params,
                               int count)
{
    t->numbers = (gd_run_numbers){.loss_after = NAN};
    return put_params(&t->held, names, params, count);
}

gd_status gd__run_writer_last(gd_run_writer *t, double loss, const char *const *names,
                              gd_tensor *const *params, int count)
{
    gd_text here = gd__text(t->ctx);
    gd_status status = t->held.used ? put_params(&here, names, params, count) : GD_OK;
    bool same = t->held.used && !status && !strcmp(here.data, t->held.data);
    gd__text_free(&here);
    return status ? status : release_line(t, same ? loss : NAN);
}

gd_status gd__run_writer_step(gd_run_writer *t, const gd_run_numbers *numbers, const char *const *names,
                              gd_tensor *const *params, int count)
{
    gd_status status = release_line(t, numbers->loss);
    if (!status && isnan(numbers->loss_after)) {
        t->numbers = *numbers;
        status = put_params(&t->held, names, params, count);
    } else if (!status)
        status = gd__run_log_line(&t->buffer, numbers, names, params, count);
    return status ? status : t->buffer.used >= KEEP ? write_lines(t) : GD_OK;
}

gd_status gd__run_writer_end(gd_run_writer *t)
{
    return t->buffer.failed ? GD_NOMEM : t->buffer.used >= KEEP ? write_lines(t) : GD_OK;
}

gd_status gd__run_writer_flush(gd_run_writer *t) { return write_lines(t); }

gd_status gd__run_writer_close(gd_run_writer *t)
{
    if (!t) return GD_OK;
    gd_status status = t->numbers.step ? release_line(t, NAN) : GD_OK;
    if (t->fd >= 0 && !status) status = write_lines(t);
    if (t->fd >= 0 && close(t->fd) != 0 && errno != EINTR && !status)
        status = gd__io_error(t->ctx, t->path, "write", errno);
    gd__text_free(&t->buffer);
    gd__text_free(&t->held);
    gd__strfree(t->ctx, t->path);
    gd__free(t->ctx, t, sizeof *t);
    return status;
}

/* ---- reading ---- */

enum { STEP, LOSS, EVALS, EPOCH, FIRST, SECOND, COLUMNS };

typedef struct rows {
    gd_run_log *trace;
    const char *source, *key;
    double (*row)[COLUMNS];
    size_t count, bytes, line;
    bool two; /* every line so far has two parameters */
} rows;

static gd_status bad_line(const rows *r, const char *text)
{
    return gd_fail(r->trace->ctx, GD_FORMAT, "%s: line %zu: %s", r->source, r->line, text);
}

/* A number, or one of the strings for numbers that JSON lacks. */
static double number(const json_t *value)
{
    if (json_is_number(value)) return json_number_value(value);
    const char *text = json_string_value(value);
    if (text && !strcmp(text, "Infinity")) return INFINITY;
    if (text && !strcmp(text, "-Infinity")) return -INFINITY;
    return NAN;
}

static bool grow(rows *r)
{
    return gd__grow(r->trace->ctx, &r->row, &r->bytes, (r->count + 1) * sizeof *r->row);
}

/* Collects the numbers of all parameters as long as there are at most two. */
typedef struct pair {
    double value[2];
    char name[2][80];
    int count;
} pair;

static void collect(pair *p, const char *name, const json_t *value, int depth)
{
    if (p->count > 2) return;
    if (json_is_array(value) && depth < 8) {
        for (size_t i = 0; i < json_array_size(value) && p->count <= 2; i++) {
            char inner[80];
            (void)snprintf(inner, sizeof inner, "%.50s[%zu]", name, i);
            collect(p, inner, json_array_get(value, i), depth + 1);
        }
        return;
    }
    if (p->count < 2) {
        p->value[p->count] = number(value);
        (void)snprintf(p->name[p->count], sizeof p->name[0], "%.79s", name);
    }
    p->count++;
}

/* "loss" means that of the parameters in the line, if known; at the start there is only one. */
static const json_t *loss_of(const json_t *object, const char *key)
{
    const json_t *after = json_object_get(object, "loss_after");
    if (!strcmp(key, "loss") && after) return after;
    bool start = number(json_object_get(object, "step")) == 0;
    return json_object_get(object, start && !strcmp(key, "loss_after") ? "loss" : key);
}

static gd_status add_line(rows *r, const json_t *object)
{
    const json_t *loss = loss_of(object, r->key), *params = json_object_get(object, "params");
    const json_t *step = json_object_get(object, "step"), *evals = json_object_get(object, "evals");
    const json_t *epoch = json_object_get(object, "epoch");
    if (!json_is_object(object)) return bad_line(r, "not a JSON object");
    if (!json_is_number(step)) return bad_line(r, "no number \"step\"");
    if (!json_is_number(loss) && !json_is_string(loss)) {
        char text[100];
        (void)snprintf(text, sizeof text, "no number \"%.60s\"", r->key);
        return bad_line(r, text);
    }
    if (!grow(r)) return GD_NOMEM;
    pair p = {.count = 0};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)params, name, value) collect(&p, name, value, 0);
    r->two = r->two && p.count == 2;
    if (r->two) memcpy(r->trace->axis, p.name, sizeof p.name);
    double row[COLUMNS] = {number(step), number(loss), number(evals), number(epoch), p.value[0], p.value[1]};
    memcpy(r->row[r->count++], row, sizeof row);
    return GD_OK;
}

/* Rows become columns. */
static gd_status turn(gd_run_log *out, const rows *r)
{
    out->count = r->count;
    out->bytes = r->count * COLUMNS * sizeof(double);
    out->block = gd__alloc(out->ctx, out->bytes);
    if (!out->block) return GD_NOMEM;
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < COLUMNS; k++) out->block[k * r->count + i] = r->row[i][k];
    out->step = out->block;
    out->loss = out->block + LOSS * r->count;
    out->evals = out->block + EVALS * r->count;
    out->epoch = out->block + EPOCH * r->count;
    if (r->two) {
        out->x = out->block + FIRST * r->count;
        out->y = out->block + SECOND * r->count;
    }
    return GD_OK;
}

gd_status gd__run_log_parse(gd_ctx *ctx, const char *source, const char *data, size_t size, const char *key,
                            gd_run_log *out)
{
    *out = (gd_run_log){.ctx = ctx};
    rows r = {.trace = out, .source = source, .key = key, .two = true, .line = 1};
    gd_status status = GD_OK;
    for (size_t at = 0; at < size && !status; r.line++) {
        const char *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) - at : size - at;
        if (strspn(data + at, " \t\r") < length) {
            json_error_t error;
            json_t *object = gd__json_read(data + at, length, &error);
            status = object ? add_line(&r, object) : bad_line(&r, error.text);
            json_decref(object);
        }
        at += length + 1;
    }
    if (!status && !r.count) status = gd_fail(ctx, GD_FORMAT, "%s: the trace is empty", source);
    if (!status) status = turn(out, &r);
    gd__free(ctx, r.row, r.bytes);
    return status;
}

gd_status gd__run_log_load(gd_ctx *ctx, const char *path, const gd_input *how, const char *key,
                           gd_run_log *out)
{
    char *data;
    size_t size, block;
    *out = (gd_run_log){.ctx = ctx};
    gd_status status = gd__read_input(ctx, path, how, MAX_FILE, NULL, &data, &size, &block);
    if (status) return status;
    status = gd__run_log_parse(ctx, path, data, size, key, out);
    gd__free(ctx, data, block);
    return status;
}

void gd__run_log_free(gd_run_log *t)
{
    gd__free(t->ctx, t->block, t->bytes);
    *t = (gd_run_log){.ctx = t->ctx};
}
