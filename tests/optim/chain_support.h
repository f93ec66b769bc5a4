/* Classes that only the tests of chains have, and contexts that know them. */
#ifndef GD_TESTS_OPTIM_CHAIN_SUPPORT_H
#define GD_TESTS_OPTIM_CHAIN_SUPPORT_H

#include "gradus/chain.h"
#include "gradus/link.h"
#include "optim/link/classes.h"
#include "optim/text/setting.h"
#include "support/support.h"

#include <math.h>

/* ---- classes that only these tests have ---- */

static inline gd_value same(gd_rule *r, gd_value update)
{
    (void)r;
    return update;
}

static const gd_field decay_fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "first"),
    GD_REAL("beta2", 0.999, 0, 1, "second"),
    GD_FLAG("debiased", true, "corrected"),
    GD_CHOICE("init", "zeros", "zeros|update", "first value"),
    GD_REAL_OR_NONE("limit", 0, INFINITY, "at most"),
    GD_INT("every", 1, 1, 1000, "steps"),
    GD_CHILD("inner", "applied inside"),
};
static const gd_field scale_fields[] = {GD_REAL_NEEDED("factor", -INFINITY, INFINITY, "by"),
                                        GD_REAL("power", 1, -10, 10, "of it")};
static const gd_field tx_rate_fields[] = {
    GD_REAL("tx_rate", 1e-3, -INFINITY, INFINITY, "named like its link")};
static const gd_field window_fields[] = {
    {.name = "weights", .kinds = GD_SET_LIST | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}},
    {.name = "axes",
     .kinds = GD_SET_LIST | GD_SET_REAL | GD_SET_STRING | GD_SET_NONE,
     .fallback = {.kind = GD_SET_NONE},
     .low = 0,
     .high = 7,
     .integer = true},
    {.name = "title", .kinds = GD_SET_STRING, .fallback = {.kind = GD_SET_STRING, .string = "w = "}},
};
static const gd_field pair_fields[] = {GD_CHILD_NEEDED("left", "one"), GD_CHILD_NEEDED("right", "other"),
                                       GD_INT_NEEDED("steps", 1, 1e6, "of both")};
static const gd_field all_fields[] = {GD_CHILDREN("modules", "in turn"),
                                      GD_INT("steps", 1, 1, 1e6, "of each")};
static const gd_field mix_fields[] = {
    {.name = "other", .kinds = GD_SET_REAL | GD_SET_CHAIN, .low = -INFINITY, .high = INFINITY},
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "times")};
/* children of any number after settings that may be left out */
static const gd_field late_fields[] = {GD_CHILD("first", "before the others"),
                                       GD_REAL("weight", 1, -INFINITY, INFINITY, "of it"),
                                       GD_CHOICE("order", "up", "up|down", "of the rest"),
                                       GD_CHILDREN("modules", "in turn"),
                                       GD_CHILD("last", "after them"),
                                       GD_INT("steps", 1, 1, 1e6, "of each")};
/* as split(filter, true, false) of the catalogue has it */
static const gd_field split_fields[] = {{.name = "filter", .kinds = GD_SET_STRING},
                                        GD_CHILD("true", "for those"),
                                        GD_CHILD("false", "for the rest")};
static const gd_field span_fields[] = {GD_REAL("low", 0, -INFINITY, INFINITY, "from"),
                                       GD_REAL("high", 1, -INFINITY, INFINITY, "to")};

static inline gd_status span_check(gd_link *link)
{
    if (gd_link_real(link, "low", NULL) <= gd_link_real(link, "high", NULL)) return GD_OK;
    return gd_fail(gd_link_ctx(link), GD_VALUE, "tx_span: low is above high");
}

#define CLASS(n, f)                           \
    {                                         \
        .name = n, GD_FIELDS(f), .rule = same \
    }

static const gd_link_class classes[] = {
    CLASS("tx_decay", decay_fields),
    CLASS("tx_scale", scale_fields),
    CLASS("tx_rate", tx_rate_fields),
    CLASS("tx_window", window_fields),
    CLASS("tx_pair", pair_fields),
    CLASS("tx_all", all_fields),
    CLASS("tx_mix", mix_fields),
    CLASS("tx_late", late_fields),
    CLASS("tx_split", split_fields),
    {.name = "tx_span", GD_FIELDS(span_fields), .rule = same, .check = span_check},
    {.name = "tx_plain", .rule = same},
};

static inline int begin(void **state)
{
    int failed = begin_test(state);
    for (int i = 0; i < COUNT_OF(classes); i++)
        assert_int_equal(gd_link_class_register(*state, &classes[i]), GD_OK);
    return failed;
}

static inline gd_link *parsed(gd_ctx *ctx, const char *text)
{
    gd_link *link = gd_chain(ctx, text);
    if (!link) print_error("'%s'\n", text);
    assert_no_error(ctx);
    assert_non_null(link);
    return link;
}

static inline void expect_print(const gd_link *link, const char *want)
{
    char text[4096];
    int length = gd_link_print(link, text, sizeof text);
    assert_string_equal(text, want);
    assert_int_equal(length, strlen(want));
}

static inline const char *name_of(const gd_link *link) { return gd_link_class_of(link)->name; }

/* Everything but states. */
static inline bool same_link(const gd_link *a, const gd_link *b)
{
    const gd_link_class *cls = gd_link_class_of(a);
    if (cls != gd_link_class_of(b) || gd_link_children(a) != gd_link_children(b)) return false;
    for (int i = 0; i < cls->field_count; i++)
        if (!gd__setting_equal(gd_link_get(a, cls->fields[i].name, NULL),
                               gd_link_get(b, cls->fields[i].name, NULL)))
            return false;
    for (int i = 0; i < gd_link_children(a); i++)
        if (!same_link(gd_link_child_at(a, i), gd_link_child_at(b, i))) return false;
    return true;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end_test)

#endif
