/* Whether two recordings are of the same work.  If they differ, the function behaved differently the second time: it read data,
 * counted its calls, or got a different number. */
#include "trace/trace_scan.h"

#include <stdio.h>
#include <string.h>

#define SAY(...) ((void)snprintf(why, size, __VA_ARGS__), false)

static const char *call_name(const gd_recorded *c)
{
    return c->kind == GD_CALL_KERNEL ? gd__ops[c->op].name
           : c->kind == GD_CALL_SCAN ? "a loop"
                                     : "data made on the host";
}

static bool same_look(const gd_operand *a, const gd_operand *b)
{
    return a->buffer == b->buffer && a->dtype == b->dtype && a->ndim == b->ndim && a->offset == b->offset &&
           a->numel == b->numel && !memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) &&
           !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride);
}

static bool same_numbers(const gd_recorded *a, const gd_recorded *b)
{
    return a->attrs.ni == b->attrs.ni && a->attrs.nf == b->attrs.nf &&
           !memcmp(a->attrs.i, b->attrs.i, (size_t)a->attrs.ni * sizeof *a->attrs.i) &&
           !memcmp(a->attrs.f, b->attrs.f, (size_t)a->attrs.nf * sizeof *a->attrs.f);
}

static bool calls_agree(const gd_recording *a, const gd_recording *b, int i, char *why, size_t size)
{
    const gd_recorded *x = &a->call[i], *y = &b->call[i];
    if (x->kind != y->kind || x->op != y->op || x->nin != y->nin || x->nout != y->nout)
        return SAY("its operators differ from call to call: %s, then %s (operator %d)", call_name(x),
                   call_name(y), i + 1);
    if (x->kind == GD_CALL_INPUT && (x->source != y->source || x->bytes != y->bytes))
        return SAY("its numbers of gd_traced_input are elsewhere in each call (operator %d)", i + 1);
    if (x->kind == GD_CALL_DATA && (x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes) != 0))
        return SAY("data that it makes on the host differ from call to call (%zu bytes, operator %d); "
                   "gd_traced_input reads them again in each",
                   x->bytes, i + 1);
    if (x->kind == GD_CALL_SCAN && !gd__scans_agree(x->scan, y->scan, why, size)) return false;
    if (x->kind == GD_CALL_KERNEL && !same_numbers(x, y))
        return SAY("a number of %s differs from call to call (operator %d); gd_traced_input reads one again "
                   "in each",
                   gd__ops[x->op].name, i + 1);
    for (int k = 0; k < x->nin + x->nout; k++)
        if (!same_look(&a->operand[x->first + k], &b->operand[y->first + k]))
            return SAY("an operand of %s differs from call to call (operator %d)", call_name(x), i + 1);
    return true;
}

static bool buffers_agree(const gd_recording *a, const gd_recording *b, bool captured, char *why, size_t size)
{
    if (a->buffers != b->buffers) return SAY("it uses other tensors from call to call");
    for (int k = 0; k < a->buffers; k++) {
        const gd_buffer *x = &a->buffer[k], *y = &b->buffer[k];
        bool same = x->origin == y->origin && x->bytes == y->bytes && x->input == y->input &&
                    (x->origin != GD_ORIGIN_CAPTURED || !captured || x->storage == y->storage);
        if (!same) return SAY("it uses other tensors from call to call");
    }
    return true;
}

bool gd__axes_alike(const gd_axes *a, const gd_axes *b, int ndim)
{
    for (int i = 0; i < ndim && a != b; i++) {
        if ((a ? a->name[i] : NULL) != (b ? b->name[i] : NULL)) return false;
        const gd_labels *x = a ? a->labels[i] : NULL, *y = b ? b->labels[i] : NULL;
        if (x == y) continue;
        if (!x || !y || x->count != y->count) return false;
        for (int64_t k = 0; k < x->count; k++)
            if (x->text[k] != y->text[k]) return false;
    }
    return true;
}

static bool agree(const gd_recording *a, const gd_recording *b, bool captured, char *why, size_t size)
{
    int least = a->calls < b->calls ? a->calls : b->calls;
    for (int i = 0; i < least; i++)
        if (!calls_agree(a, b, i, why, size)) return false;
    if (a->calls != b->calls)
        return SAY("it runs %d operators in one call and %d in the next", a->calls, b->calls);
    if (!buffers_agree(a, b, captured, why, size)) return false;
    if (a->drawn != b->drawn) return SAY("it draws other counts of random numbers from call to call");
    bool same = a->outputs == b->outputs;
    for (int i = 0; same && i < a->outputs; i++)
        same = same_look(&a->output[i], &b->output[i]) &&
               gd__axes_alike(a->axes[i], b->axes[i], a->output[i].ndim);
    return same || SAY("its result changes shape or axes from call to call");
}

bool gd__recordings_agree(const gd_recording *a, const gd_recording *b, char *why, size_t size)
{
    return agree(a, b, true, why, size);
}

bool gd__steps_agree(const gd_recording *a, const gd_recording *b, char *why, size_t size)
{
    return agree(a, b, false, why, size);
}
