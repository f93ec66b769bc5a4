/* Crafted optimizer states: every value of the structure in turn is left out or replaced by something else.  The load
 * succeeds or is refused with a reason, and afterwards the optimizer saves and runs; nothing is left in memory, neither of
 * the context nor of the JSON library. */
#include "gradus/file.h"
#include "optim/optim_support.h"
#include "optim/state_property.h"
#include "support/corpus.h"

#include <jansson.h>

/* ---- memory of the JSON library ---- */

static int64_t json_blocks;

static void *counting_malloc(size_t size)
{
    void *block = malloc(size);
    json_blocks += block != NULL;
    return block;
}

static void counting_free(void *block)
{
    json_blocks -= block != NULL;
    free(block);
}

/* ---- an optimizer with something of everything ---- */

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
} run;

static gd_tensor *bowl(void *user)
{
    run *r = user;
    return gd_add(gd_sum(gd_square(r->p), NULL, false),
                  gd_sum(gd_square(gd_add_scalar(r->q, -1)), NULL, false));
}

/* Attributes, a tensor of the link and a setting of its own for one parameter. */
static gd_status leave_traces(gd_link *link, gd_var *var)
{
    gd_status status = gd_var_set_attr(var, "mark", 2.5);
    if (!status) status = gd_var_set_attr_tensor(var, "more", gd_scalar(gd_link_ctx(link), GD_F64, 3));
    if (!status) status = gd_link_set_global_tensor(link, "kept", gd_scalar(gd_link_ctx(link), GD_F64, 4));
    double *number = gd_link_global(link, "number", 0);
    if (number) *number += 1;
    return status;
}

static run open_run(memory *m)
{
    run r = {.ctx = context(m, 1, NULL)};
    OK(gd_link_class_register(r.ctx, &probe_a_class));
    probe = (probes){.a = leave_traces};
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 2, (int64_t[]){2, 2}, (double[]){0.5, -2, 1.5, 3}));
    r.q = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){3}, (double[]){1, 0.25, -0.75}));
    gd_link *link = gd_chain(r.ctx,
                             "spsa(seed=3) | probe_a | clip_norm(1) | adam(amsgrad=true) | lbfgs | lr(0.5)");
    r.o = link ? gd_optimizer_new(r.ctx, link) : NULL;
    if (!r.o) fail_msg("%s", gd_error_text(r.ctx));
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add_group(r.o, (const char *[]){"layer.q"}, &r.q, 1, "lr=0.25, beta1=0.8", NULL));
    return r;
}

static void take_step(run *r)
{
    if (gd_optimizer_step(r->o, &(gd_objective){.loss = bowl, .user = r}, NULL))
        fail_msg("%s", gd_error_text(r->ctx));
}

static void close_run(run *r, const memory *m)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
    end_context(r->ctx, m);
}

/* ---- crafting ---- */

static const char *const others[] = {"null",
                                     "true",
                                     "-1",
                                     "1e300",
                                     "9223372036854775807",
                                     "\"x\"",
                                     "\"\"",
                                     "[]",
                                     "{}",
                                     "[[]]",
                                     "[1]",
                                     "{\"x\": [1, \"y\"]}",
                                     "[null, \"18446744073709551615\"]"};

/* Value number *left of those below (and with) j, counted in the order of the text; its holder and place there. */
typedef struct spot {
    json_t *holder;
    const char *key; /* in an object */
    size_t index;    /* in an array */
} spot;

static bool find_spot(json_t *j, int *left, spot *out)
{
    const char *key;
    json_t *item;
    size_t i;
    json_object_foreach(j, key, item)
    {
        *out = (spot){j, key, 0};
        if ((*left)-- == 0 || find_spot(item, left, out)) return true;
    }
    json_array_foreach(j, i, item)
    {
        *out = (spot){j, NULL, i};
        if ((*left)-- == 0 || find_spot(item, left, out)) return true;
    }
    return false;
}

/* Way 0 leaves the value out, the others put something else in its place. */
static char *craft(const char *text, int value, int way)
{
    spot at;
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    char *crafted = NULL;
    if (find_spot(j, &value, &at)) {
        json_t *other = way ? json_loads(others[way - 1], JSON_DECODE_ANY, NULL) : NULL;
        int failed = at.key  ? other ? json_object_set_new(at.holder, at.key, other)
                                     : json_object_del(at.holder, at.key)
                      : other ? json_array_set_new(at.holder, at.index, other)
                             : json_array_remove(at.holder, at.index);
        assert_int_equal(failed, 0);
        crafted = json_dumps(j, 0);
    }
    json_decref(j);
    return crafted;
}

static void try_state(run *r, const gd_archive *good, const char *text, bool strict)
{
    gd_archive *crafted = gd_archive_new(r->ctx);
    for (int64_t i = 0; i < gd_archive_count(good); i++)
        OK(gd_archive_put(crafted, gd_archive_name(good, i), gd_archive_get(good, i)));
    OK(gd_archive_set_meta(crafted, "optimizer", text));
    gd_status status = gd_optimizer_unpack(r->o, crafted, NULL, strict);
    if (status != gd_error(r->ctx)) fail_msg("%d returned, %d recorded: %s", status, gd_error(r->ctx), text);
    if (status && strlen(gd_error_text(r->ctx)) < 10) fail_msg("no reason given: %s", text);
    gd_clear_error(r->ctx);
    gd_archive_free(crafted);
}

static void a_crafted_state_leaves_nothing_behind(void **state)
{
    (void)state;
    json_set_alloc_funcs(counting_malloc, counting_free);
    memory m = {0};
    run r = open_run(&m);
    for (int i = 0; i < 3; i++) take_step(&r);
    gd_archive *good = gd_archive_new(r.ctx);
    OK(gd_optimizer_pack(r.o, good, NULL));
    const char *text = gd_archive_get_meta(good, "optimizer");
    assert_non_null(text);
    int tried = 0;
    for (int way = 0; way <= COUNT_OF(others); way++)
        for (int value = 0;; value++, tried++) {
            char *crafted = craft(text, value, way);
            if (!crafted) break;
            int64_t blocks = json_blocks;
            try_state(&r, good, crafted, value % 2);
            if (json_blocks != blocks)
                fail_msg("%d blocks are lost: %s", (int)(json_blocks - blocks), crafted);
            counting_free(crafted);
            /* whatever was taken over: the good state still fits, and steps run */
            if (gd_optimizer_unpack(r.o, good, NULL, true)) fail_msg("%s", gd_error_text(r.ctx));
        }
    assert_true(tried > 500);
    take_step(&r);
    gd_archive_free(good);
    close_run(&r, &m);
    assert_int_equal(json_blocks, 0);
}

static void check_structure(gd_ctx *ctx, const corpus_file *file)
{
    state_trial t;
    assert_true(state_begin(&t, ctx));
    const char *fault = state_fault(&t, (const char *)file->data);
    if (fault) fail_msg("%s: %s", file->path, fault);
    state_end(&t);
}

static void the_corpus_is_loaded_or_refused(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    replay_corpus(ctx, GD_TEST_DIR "/optim/corpus/state", 8, check_structure);
    end_context(ctx, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_crafted_state_leaves_nothing_behind),
                                       TEST(the_corpus_is_loaded_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
