/* Runs that are resumed later; see run_state.h.
 *
 *   expression           meta: the text of the expression
 *   chain                meta: the text of the chain
 *   parameter/NAME       values after the last step
 *   optimizer/...        as in gd_optimizer_pack */
#include "problem/run_state.h"
#include "base/spelling.h"

#include "gradus/autograd.h"
#include "gradus/file.h"
#include "optim/state/resume.h"

#include <stdio.h>
#include <string.h>

#define OPTIMIZER "optimizer/"
#define PARAMETER "parameter/"

static void name_in_file(const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, PARAMETER "%s", name);
}

gd_status gd__run_save(const gd_problem *p, gd_optimizer *o, const char *expression, const char *chain,
                       const char *path)
{
    gd_archive *archive = gd_archive_new(p->ctx);
    gd_status status = archive ? gd_archive_set_meta(archive, "expression", expression) : GD_NOMEM;
    if (!status) status = gd_archive_set_meta(archive, "chain", chain);
    for (int i = 0; i < p->params && !status; i++) {
        char name[256];
        name_in_file(p->name[i], name, sizeof name);
        status = gd_archive_put(archive, name, p->value[i]);
    }
    if (!status) status = gd_optimizer_pack(o, archive, OPTIMIZER);
    if (!status) status = gd_archive_save(archive, path);
    gd_archive_free(archive);
    return status;
}

static bool same_sizes(const gd_tensor *a, const gd_tensor *b)
{
    bool same = gd_ndim(a) == gd_ndim(b);
    for (int i = 0; i < gd_ndim(a) && same; i++) same = gd_size(a, i) == gd_size(b, i);
    return same;
}

static bool is_run(const gd_archive *archive)
{
    for (int64_t i = 0; i < gd_archive_count(archive); i++)
        if (!strncmp(gd_archive_name(archive, i), PARAMETER, sizeof PARAMETER - 1)) return true;
    return false;
}

/* Recognises files of other programs by entries that only those write. */
static const char *kind_of(const gd_archive *archive)
{
    if (gd_archive_get_meta(archive, "train")) return "a model, to continue with gradus train";
    if (gd_archive_get_meta(archive, "fit.param.0")) return "a fit";
    if (gd_archive_get_meta(archive, "expression"))
        return "parameters alone, as {out} writes them; {params} NAME=@FILE:NAME starts there";
    return "something else";
}

/* Checks that all exist before one is changed. */
static gd_status check_file(const gd_problem *p, const gd_archive *archive, const char *expression,
                            const char *path)
{
    const char *of = gd_archive_get_meta(archive, "expression");
    if (!of || !is_run(archive))
        return gd_fail(p->ctx, GD_VALUE, "%s: no run that minimize has saved, but %s", path,
                       gd__spell_of(p->ctx, kind_of(archive)));
    if (strcmp(of, expression) != 0)
        return gd_fail(p->ctx, GD_VALUE, "%s: a run of a different expression, '%.200s'", path, of);
    for (int i = 0; i < p->params; i++) {
        char name[256];
        name_in_file(p->name[i], name, sizeof name);
        const gd_tensor *t = gd_archive_find(archive, name);
        if (!t) return gd_fail(p->ctx, GD_VALUE, "%s: the run has no parameter '%.80s'", path, p->name[i]);
        if (!same_sizes(t, p->value[i]))
            return gd_fail(p->ctx, GD_VALUE, "%s: the run has a parameter '%.80s' of a different shape", path,
                           p->name[i]);
    }
    return GD_OK;
}

gd_archive *gd__run_open(const gd_problem *p, const char *expression, const char *path)
{
    gd_archive *run = gd_archive_load(p->ctx, path);
    if (!run || !check_file(p, run, expression, path)) return run;
    gd_archive_free(run);
    return NULL;
}

const char *gd__run_chain(const gd_archive *run) { return gd_archive_get_meta(run, "chain"); }

/* The state of a different chain: what the file has, and what to write. */
static gd_status explain_mismatch(gd_ctx *ctx, const gd_archive *run, const char *given, const char *path)
{
    const char *chain = gd__run_chain(run);
    char text[400];
    if (gd_error(ctx) != GD_MISMATCH || !given || !chain || !strcmp(given, chain)) return gd_error(ctx);
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    return gd_fail(
        ctx, GD_MISMATCH,
        "{chain} '%.100s': the run in %s has the chain '%.100s', which it continues with if {chain} is omitted; %s",
        given, path, chain, text);
}

gd_status gd__run_load(gd_problem *p, gd_optimizer *o, gd_archive *archive, const char *given, bool keep,
                       const char *path)
{
    gd_ctx *ctx = p->ctx;
    bool known = gd_archive_get_meta(archive, OPTIMIZER "optimizer");
    gd_status status = keep && known ? gd__optimizer_keep_settings(o, archive, OPTIMIZER "optimizer") : GD_OK;
    if (!status) status = gd_optimizer_unpack(o, archive, OPTIMIZER, true);
    if (status) status = explain_mismatch(ctx, archive, given, path);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < p->params && !status; i++) {
        char name[256];
        name_in_file(p->name[i], name, sizeof name);
        status = gd_assign(p->value[i], gd_archive_find(archive, name));
    }
    gd_no_grad_end(ctx);
    return status;
}
