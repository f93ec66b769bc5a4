/* gradus/links.h, made from the table of links: what its options make is what the chain text makes. */
#include "gradus/chain.h"
#include "gradus/links.h"
#include "optim/table_support.h"
#include "support/own_context.h"
#include "support/support.h"

#include <math.h>

enum { NOTHING = -1 };

/* ---- values ---- */

/* A number that the field takes and, where there are several, not its default. */
static double other_number(const gd_field *f)
{
    const double tries[] = {3, 2, 0.25, 1, 0, f->low, f->high};
    for (int i = 0; i < COUNT_OF(tries); i++)
        if (tries[i] >= f->low && tries[i] <= f->high && tries[i] != f->fallback.real &&
            (!f->integer || tries[i] == floor(tries[i])))
            return tries[i];
    if (f->low != f->high) fail_msg("no number for %s", f->name);
    return f->low; /* the only one it takes */
}

/* A string that the field takes and, where there are several, not its default. */
static const char *other_string(const gd_field *f, char *room, size_t size)
{
    const char *last = f->choices ? strrchr(f->choices, '|') : NULL;
    const char *first = f->fallback.kind == GD_SET_STRING ? f->fallback.string : "";
    snprintf(room, size, "%s", last ? last + 1 : f->choices ? f->choices : "other");
    if (!strcmp(room, first) && last) snprintf(room, size, "%.*s", (int)strcspn(f->choices, "|"), f->choices);
    return room;
}

static gd_setting other_setting(const gd_field *f, char *room, size_t size)
{
    static const double numbers[] = {0.5};
    if (f->kinds & GD_SET_REAL) return gd_setting_real(other_number(f));
    if (!(f->kinds & GD_SET_STRING)) return gd_setting_list(numbers, COUNT_OF(numbers));
    return gd_setting_string(other_string(f, room, size));
}

static const char *child_text(const gd_field *f)
{
    return strstr(f->name, "hess") ? "newton" : "clip_value(3)";
}

/* The same as chain text. */
static void put_value(const gd_field *f, char *out, size_t size)
{
    char room[64];
    if (f->variadic)
        snprintf(out, size, "%s", child_text(f));
    else if (f->kinds & GD_SET_CHAIN && !(f->kinds & GD_SET_REAL))
        snprintf(out, size, "%s=%s", f->name, child_text(f));
    else if (f->kinds & GD_SET_BOOL)
        snprintf(out, size, "%s=%s", f->name, f->fallback.real != 0 ? "false" : "true");
    else if (f->kinds & GD_SET_REAL)
        gd__format(out, size, "%s=%.17g", f->name, other_number(f));
    else if (!(f->kinds & GD_SET_STRING))
        snprintf(out, size, "%s=[0.5]", f->name);
    else
        snprintf(out, size, "%s=\"%s\"", f->name, other_string(f, room, sizeof room));
}

/* ---- every link by its options, made with the macros of the header ---- */

/* Fields that are set: one, and those that must be. */
static bool is_set(const gd_link_class *cls, int field, int which)
{
    return field == which || (which != NOTHING && !cls->fields[field].fallback.kind);
}

#define SET_number(o, member) o.member = other_number(f)
#define SET_flag(o, member)   o.member = f->fallback.real == 0
#define SET_open(o, member)   o.member = 1
#define SET_string(o, member) o.member = other_string(f, rooms[field], sizeof *rooms)
#define SET_child(o, member)  o.member = gd_chain(own, child_text(f))
#define SET_children(o, member) \
    o.member = (child = gd_chain(own, child_text(f)), &child), o.member##_count = 1
#define SET_operand(o, member) o.member = other_number(f)
#define SET_any(o, member)     o.member = other_setting(f, rooms[field], sizeof *rooms)

#define FILL(form, member)           \
    if (is_set(cls, field, which)) { \
        f = &cls->fields[field];     \
        SET_##form(o, member);       \
    }                                \
    field++;
#define MAKE(name)                                                                \
    static gd_link *make_##name(gd_ctx *own, const gd_link_class *cls, int which) \
    {                                                                             \
        gd_##name##_options o = gd_##name##_defaults();                           \
        gd_link *child = NULL;                                                    \
        const gd_field *f = NULL;                                                 \
        static char rooms[32][64]; /* one a field */                              \
        int field = 0;                                                            \
        (void)child, (void)f, (void)rooms;                                        \
        GD_OPTIONS_OF_##name(FILL) assert_int_equal(field, cls->field_count);     \
        return gd_##name##_new(own, which == NOTHING ? NULL : &o);                \
    }
GD_LINKS(MAKE)
GD_PRESETS(MAKE)

#define MAKE_PLAIN(name)                                                          \
    static gd_link *make_##name(gd_ctx *own, const gd_link_class *cls, int which) \
    {                                                                             \
        (void)cls, (void)which;                                                   \
        return gd_##name##_new(own);                                              \
    }
GD_LINKS_WITHOUT_OPTIONS(MAKE_PLAIN)

static const struct {
    const char *name;
    gd_link *(*make)(gd_ctx *c, const gd_link_class *cls, int which);
} made[] = {
#define ROW(name) {#name, make_##name},
    GD_LINKS(ROW) GD_LINKS_WITHOUT_OPTIONS(ROW) GD_PRESETS(ROW)};

static const gd_link_class *class_of(int row)
{
    bool layer = !strcmp(made[row].name, "sequential_link"); /* gd_sequential_new makes a module */
    const gd_link_class *cls = gd_link_class_find(layer ? "sequential" : made[row].name);
    int count = 0;
    const gd_link_class *const *preset = gd_link_presets(&count);
    for (int i = 0; i < count && !cls; i++)
        if (!strcmp(preset[i]->name, made[row].name)) cls = preset[i];
    assert_non_null(cls);
    return cls;
}

/* ---- tests ---- */

static void assert_same_text(gd_link *a, gd_link *b)
{
    char left[600], right[600];
    gd_link_print(a, left, sizeof left);
    gd_link_print(b, right, sizeof right);
    assert_string_equal(left, right);
}

static void every_link_and_preset_has_typed_options(void **state)
{
    (void)state;
    int count = 0, presets = 0;
    (void)gd_link_classes(&count);
    (void)gd_link_presets(&presets);
    count += presets;
    assert_int_equal(COUNT_OF(made), count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(class_of(i)->name, made[k].name);
}

static void defaults_are_those_of_the_chain_text(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(made); i++) {
        if (!strcmp(made[i].name, "chain")) continue; /* as text it vanishes into the chain it is in */
        char said[200] = "";
        gd_link *text = gd_chain(ctx, class_of(i)->name);
        if (!text) snprintf(said, sizeof said, "%s", strrchr(gd_error_text(ctx), ':') + 2);
        gd_clear_error(ctx);
        gd_link *typed = made[i].make(ctx, class_of(i), NOTHING);
        if (text) {
            assert_no_error(ctx);
            assert_same_text(text, typed);
        } else { /* both miss the same setting */
            assert_null(typed);
            assert_int_equal(gd_error(ctx), GD_ARGUMENT);
            assert_non_null(strstr(gd_error_text(ctx), said));
            gd_clear_error(ctx);
        }
        gd_link_release(typed);
        gd_link_release(text);
    }
}

/* "adam(beta1=3)" with what the link needs besides; children of any number come first. */
static void text_with(const gd_link_class *cls, int which, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s(", cls->name);
    bool any = false;
    for (int variadic = 1; variadic >= 0; variadic--)
        for (int i = 0; i < cls->field_count; i++) {
            if (!is_set(cls, i, which) || cls->fields[i].variadic != variadic) continue;
            if (any) used += (size_t)snprintf(out + used, size - used, ", ");
            put_value(&cls->fields[i], out + used, size - used);
            used += strlen(out + used);
            any = true;
        }
    snprintf(out + used, size - used, ")");
}

static void every_option_prints_like_the_setting_in_a_chain_text(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(made); i++) {
        const gd_link_class *cls = class_of(i);
        for (int k = 0; k < cls->field_count && strcmp(cls->name, "chain") != 0; k++) {
            if (cls->fields[k].only) continue; /* has no other value */
            char text[400], printed[600];
            text_with(cls, k, text, sizeof text);
            gd_link *expected = gd_chain(ctx, text), *link = expected ? made[i].make(ctx, cls, k) : NULL;
            if (!link) print_error("%s: %s\n", text, gd_error_text(ctx));
            assert_no_error(ctx);
            assert_same_text(expected, link);
            gd_link_print(link, printed, sizeof printed);
            gd_link *plain = gd_chain(ctx, cls->name);
            gd_clear_error(ctx);
            if (plain && (cls->fields[k].kinds & ~(unsigned)GD_SET_NONE) != GD_SET_STRING)
                assert_string_not_equal(printed, cls->name); /* it was set */
            gd_link_release(plain);
            gd_link_release(link);
            gd_link_release(expected);
        }
    }
}

static void a_wrong_option_is_refused_by_name_and_links_among_them_are_released(void **state)
{
    (void)state;
    gd_adam_options o = gd_adam_defaults();
    o.beta1 = 2;
    o.inner = gd_adam_new(ctx, NULL);
    assert_null(gd_adam_new(ctx, &o));
    assert_error(ctx, GD_VALUE, "adam: beta1 is 2, must be from 0 to 1");
    /* a child that could not be made is no child left out */
    o = gd_adam_defaults();
    o.inner = gd_clip_value_new(ctx, NULL);
    assert_null(gd_adam_new(ctx, &o));
    assert_error(ctx, GD_ARGUMENT, "clip_value: needs 'value'");
    o = gd_adam_defaults();
    o.eps_at = "corected";
    assert_null(gd_adam_new(ctx, &o));
    assert_error(ctx, GD_VALUE, "adam: eps_at is \"corected\"");
    o = gd_adam_defaults();
    o.beta2 = NAN;
    assert_null(gd_adam_new(ctx, &o));
    assert_error(ctx, GD_TYPE, "adam: beta2 takes a number");
    gd_link *children[] = {gd_adam_new(ctx, NULL), NULL, gd_adam_new(ctx, NULL)};
    gd_online_options several = gd_online_defaults();
    several.modules = children;
    several.modules_count = COUNT_OF(children);
    assert_null(gd_online_new(ctx, &several));
    assert_error(ctx, GD_ARGUMENT, "a link among the options is NULL");
    assert_null(gd_link_with(ctx, "adm", NULL, 0));
    assert_error(ctx, GD_ATTRIBUTE, "link 'adm' unknown");
    assert_null(gd_adam_new(NULL, NULL));
}

static void options_of_an_optimizer_train_like_its_text(void **state)
{
    (void)state;
    gd_adam_options o = gd_adam_defaults();
    o.beta1 = 0.8;
    o.eps_at = "corrected";
    gd_lr_options lr = gd_lr_defaults();
    lr.lr = 0.1;
    gd_link *links[] = {gd_adam_new(ctx, &o), gd_lr_new(ctx, &lr)};
    gd_link *chain = gd_chain_of(ctx, links, 2),
            *text = gd_chain(ctx, "adam(0.8, eps_at=\"corrected\") | lr(0.1)");
    assert_no_error(ctx);
    assert_same_text(chain, text);
    gd_link_release(chain);
    gd_link_release(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_link_and_preset_has_typed_options, start, stop),
        cmocka_unit_test_setup_teardown(defaults_are_those_of_the_chain_text, start, stop),
        cmocka_unit_test_setup_teardown(every_option_prints_like_the_setting_in_a_chain_text, start, stop),
        cmocka_unit_test_setup_teardown(a_wrong_option_is_refused_by_name_and_links_among_them_are_released,
                                        start, stop),
        cmocka_unit_test_setup_teardown(options_of_an_optimizer_train_like_its_text, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
