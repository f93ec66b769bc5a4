/* Classes of links: which make sense, whose they are, what their fields take. */
#include "optim/chain_support.h"
#include "base/text/suggest.h"

#define OK(call) assert_int_equal(call, GD_OK)

/* ---- classes ---- */

static const gd_field no_name[] = {GD_REAL("a b", 0, 0, 1, "")};
static const gd_field no_kind[] = {{.name = "a"}};
static const gd_field two[] = {GD_REAL("a", 0, 0, 1, ""), GD_FLAG("a", 0, "")};
static const gd_field outside[] = {GD_REAL("a", 2, 0, 1, "")};
static const gd_field backwards[] = {GD_REAL("a", 0, 1, 0, "")};
static const gd_field other_kind[] = {{.name = "a", .kinds = GD_SET_BOOL, .fallback = {.kind = GD_SET_REAL}}};
static const gd_field no_choice[] = {GD_CHOICE("a", "z", "x|y", "")};
static const gd_field choice_of_number[] = {{.name = "a", .kinds = GD_SET_REAL, .choices = "x"}};
static const gd_field many_numbers[] = {{.name = "a", .kinds = GD_SET_REAL, .variadic = true}};
static const gd_field many_twice[] = {GD_CHILDREN("a", ""), GD_CHILDREN("b", "")};
static const gd_field whole_flag[] = {{.name = "a", .kinds = GD_SET_BOOL, .integer = true}};
static const gd_slot slots_twice[] = {{"m", false}, {"m", false}};

static gd_status whole_step(gd_link *link, gd_var *var)
{
    (void)link;
    (void)var;
    return GD_OK;
}

static void only_state(gd_rule *r, gd_value update)
{
    (void)r;
    (void)update;
}

static gd_status on_tensors(const gd_transform *t)
{
    (void)t;
    return GD_OK;
}

static bool always(const gd_link *link)
{
    (void)link;
    return true;
}

static const char *const scalar_names[] = {"one"};

static void classes_that_make_no_sense_are_refused(void **state)
{
    const struct {
        gd_link_class cls;
        gd_status status;
        const char *error;
    } cases[] = {
        {{.rule = same}, GD_ARGUMENT, "link class: none, or one without a name"},
        {CLASS("my-link", tx_rate_fields), GD_ARGUMENT, "link class 'my-link': the name must be letters"},
        {CLASS("true", tx_rate_fields), GD_ARGUMENT, "link class 'true': the name must be letters"},
        {CLASS("chain", tx_rate_fields), GD_ARGUMENT, "link class 'chain': there is one of that name"},
        {CLASS("tx_rate", tx_rate_fields), GD_ARGUMENT, "link class 'tx_rate': there is one of that name"},
        {{.name = "idle"}, GD_ARGUMENT, "link class 'idle': does nothing"},
        {{.name = "both", .rule = same, .step = whole_step}, GD_ARGUMENT, "link class 'both': mixes"},
        {{.name = "both", .rule = same, .apply_tensors = on_tensors},
         GD_ARGUMENT,
         "link class 'both': mixes"},
        {{.name = "c", .update_rule = only_state},
         GD_ARGUMENT,
         "link class 'c': has an update_rule without a rule"},
        {{.name = "c", .update_tensors = on_tensors},
         GD_ARGUMENT,
         "link class 'c': has update_tensors without"},
        {{.name = "c", .rule = same, .element_wise = always},
         GD_ARGUMENT,
         "link class 'c': chooses with element_wise"},
        {{.name = "c", .rule = same, .field_count = 65},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of settings"},
        {{.name = "c", .rule = same, .field_count = 1},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of settings"},
        {{.name = "c", .rule = same, .fields = tx_rate_fields},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of settings: GD_FIELDS(array) counts them"},
        {{.name = "c", .rule = same, .slots = slots_twice},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of state slots: GD_SLOTS(array) counts them"},
        {{.name = "c", .rule = same, .scalars = scalar_names},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of scalars: GD_SCALARS(array) counts them"},
        {{.name = "c", .rule = same, .slot_count = 1},
         GD_ARGUMENT,
         "link class 'c': has a wrong number of state slots"},
        {{.name = "c", .rule = same, GD_SLOTS(slots_twice)},
         GD_ARGUMENT,
         "link class 'c': has two state slots of one name"},
        {CLASS("c", no_name), GD_ARGUMENT, "link class 'c': setting 0 has no proper name"},
        {CLASS("c", no_kind), GD_ARGUMENT, "link class 'c': setting 'a' has no known kind"},
        {CLASS("c", two), GD_ARGUMENT, "link class 'c': setting 'a' is there twice"},
        {CLASS("c", outside), GD_VALUE, "link class 'c': a is 2, must be from 0 to 1"},
        {CLASS("c", backwards), GD_ARGUMENT, "link class 'c': setting 'a' has an empty range"},
        {CLASS("c", other_kind), GD_ARGUMENT,
         "link class 'c': setting 'a' has a default of a different kind"},
        {CLASS("c", no_choice), GD_VALUE, "link class 'c': a is \"z\", must be \"x\" or \"y\""},
        {CLASS("c", choice_of_number), GD_ARGUMENT,
         "link class 'c': setting 'a' has choices but is not a string"},
        {CLASS("c", many_numbers), GD_ARGUMENT, "link class 'c': setting 'a' takes any number of values"},
        {CLASS("c", many_twice), GD_ARGUMENT, "link class 'c': setting 'b' is the second for any number"},
        {CLASS("c", whole_flag), GD_ARGUMENT, "link class 'c': setting 'a' is whole but not a number"},
    };
    gd_ctx *ctx = *state;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(gd_link_class_register(ctx, &cases[i].cls), cases[i].status);
        assert_error(ctx, cases[i].status, cases[i].error);
    }
    assert_int_equal(gd_link_class_register(ctx, NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
}

static void a_class_belongs_to_its_context(void **state)
{
    gd_ctx *ctx = *state;
    assert_int_equal(gd_link_class_register(ctx, &classes[0]), GD_OK); /* again: no harm */
    assert_ptr_equal(gd__find_class(ctx, "tx_decay"), &classes[0]);
    assert_null(gd_link_class_find("tx_decay"));
    gd_ctx *other = gd_ctx_new(NULL);
    assert_null(gd_chain(other, "tx_decay"));
    assert_error(other, GD_PARSE, "chain: column 1: link 'tx_decay' unknown");
    gd_ctx_free(other);
}

static void every_built_in_class_makes_sense(void **state)
{
    int count;
    const gd_link_class *const *list = gd_link_classes(&count);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (gd__class_check(*state, list[i])) print_error("%s\n", gd_error_text(*state));
        assert_no_error(*state);
        assert_ptr_equal(gd_link_class_find(list[i]->name), list[i]); /* the only one of its name */
        assert_non_null(list[i]->summary);
        assert_non_null(list[i]->family);
        for (int k = 0; k < list[i]->field_count; k++) assert_non_null(list[i]->fields[k].help);
    }
    assert_null(gd_link_class_find("no such link"));
    assert_null(gd_link_class_find(NULL));
}

/* ---- settings ---- */

static void settings_are_checked_without_a_text_too(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = parsed(ctx, "tx_decay");
    assert_int_equal(gd_link_set_real(link, "beta1", 1.5), GD_VALUE);
    assert_error(ctx, GD_VALUE, "tx_decay: beta1 is 1.5, must be from 0 to 1");
    assert_int_equal(gd_link_set_bool(link, "beta1", true), GD_TYPE);
    assert_error(ctx, GD_TYPE, "tx_decay: beta1 takes a number, got true");
    assert_int_equal(gd_link_set_string(link, "init", NULL), GD_TYPE);
    gd_clear_error(ctx);
    assert_true(gd_link_real(link, "beta1", NULL) == 0.9);
    gd_link_release(link);
    assert_int_equal(gd__no_such_field(ctx, NULL, &classes[0], "beat1"), GD_ATTRIBUTE);
    assert_error(ctx, GD_ATTRIBUTE, "tx_decay has no setting 'beat1', did you mean 'beta1'?");
}

static void fields_say_what_they_take(void **state)
{
    static const char *const want[] = {
        "a number from 0 to 1",    "a number from 0 to 1",          "true or false",
        "\"zeros\" or \"update\"", "a number of 0 or more or none", "a whole number from 1 to 1000",
        "a link or chain or none"};
    (void)state;
    char text[200];
    for (int i = 0; i < COUNT_OF(decay_fields); i++)
        assert_string_equal(gd__field_kinds(&decay_fields[i], text, sizeof text), want[i]);
    assert_string_equal(gd__field_kinds(&window_fields[1], text, sizeof text),
                        "a whole number from 0 to 7, a string, a list of numbers or none");
}

/* ---- print, parse, print ---- */

/* Another value than the default, of a kind that the field takes. */
static void set_otherwise(gd_link *link, const gd_field *f)
{
    if (f->only) return; /* there is none */
    double number = f->low > -INFINITY ? f->low + 1 : f->high < INFINITY ? f->high : 2;
    if (number > f->high) number = f->high - (f->high - f->low) / 4;
    if (f->kinds & GD_SET_REAL)
        OK(gd_link_set_real(link, f->name, f->integer ? floor(number) : number));
    else if (f->kinds & GD_SET_BOOL)
        OK(gd_link_set_bool(link, f->name, f->fallback.real == 0));
    else if (f->kinds & GD_SET_STRING && f->choices) {
        char last[64];
        const char *bar = strrchr(f->choices, '|');
        snprintf(last, sizeof last, "%s", bar ? bar + 1 : f->choices);
        OK(gd_link_set_string(link, f->name, last));
    } else if (f->kinds & GD_SET_STRING)
        OK(gd_link_set_string(link, f->name, f->selection ? "a\"b\\ |c" : "a \"b\" | c"));
    else if (f->kinds & GD_SET_LIST)
        OK(gd_link_set_list(link, f->name, (double[]){f->low > 1 ? f->low : 1}, 1));
}

static const char *const children_texts[] = {"lr(0.5)", "[adam(0.5) | lr(2)]", "[]"};

/* A link of the class: bit i of with says whether optional child i, counted among the fields that take a link, is there;
 * changed is the field that has another value than its default; many the children of a variadic field. */
static gd_link *link_with(gd_ctx *ctx, const gd_link_class *cls, unsigned with, int changed, int many)
{
    gd_link *link = gd_link_new(ctx, cls);
    /* the last field first: children set in any order come in the order of their fields */
    for (int i = cls->field_count - 1, bit = 0; i >= 0; i--) {
        const gd_field *f = &cls->fields[i];
        bool child = f->kinds & GD_SET_CHAIN, needed = !f->fallback.kind;
        if (f->variadic)
            for (int k = 0; k < many; k++)
                OK(gd_link_set_child(link, f->name, gd_chain(ctx, children_texts[k % 3])));
        else if (child && (needed || with >> bit & 1))
            OK(gd_link_set_child(link, f->name, gd_chain(ctx, children_texts[(with + (unsigned)i) % 3])));
        else if (!child && (needed || i == changed))
            set_otherwise(link, f);
        bit += child;
    }
    return link;
}

/* A class may refuse some combinations; those have no text.  Returns whether there was one. */
static bool reads_back(gd_ctx *ctx, gd_link *link)
{
    char text[1024], again[1024];
    const gd_link_class *cls = gd_link_class_of(link);
    if (cls->check && cls->check(link)) {
        gd_clear_error(ctx);
        gd_link_release(link);
        return false;
    }
    (void)gd_link_print(link, text, sizeof text);
    gd_link *read = parsed(ctx, text);
    (void)gd_link_print(read, again, sizeof again);
    assert_string_equal(again, text);
    for (int i = 0; i < cls->field_count; i++)
        assert_true(gd__setting_equal(gd_link_get(link, cls->fields[i].name, NULL),
                                      gd_link_get(read, cls->fields[i].name, NULL)));
    assert_int_equal(gd_link_children(read), gd_link_children(link));
    gd_link_release(read);
    gd_link_release(link);
    return true;
}

static void print_and_read_back(gd_ctx *ctx, const gd_link_class *cls)
{
    int chains = 0, tried = 0;
    bool variadic = false;
    for (int i = 0; i < cls->field_count; i++) {
        chains += (cls->fields[i].kinds & GD_SET_CHAIN) != 0;
        variadic = variadic || cls->fields[i].variadic;
    }
    for (unsigned with = 0; with < 1u << chains; with++)
        for (int many = variadic; many <= 3 * variadic; many++)
            for (int changed = -1; changed < cls->field_count; changed++)
                tried += reads_back(ctx, link_with(ctx, cls, with, changed, many));
    assert_true(tried > 0);
}

static void what_is_printed_reads_back_with_any_children_of_any_class(void **state)
{
    int count;
    const gd_link_class *const *list = gd_link_classes(&count);
    for (int i = 0; i < count; i++)
        if (list[i] != &gd_link_chain) print_and_read_back(*state, list[i]); /* chains have no settings */
    for (int i = 0; i < COUNT_OF(classes); i++) print_and_read_back(*state, &classes[i]);
}

static void children_of_any_number_come_after_all_settings_before_them(void **state)
{
    gd_ctx *ctx = *state;
    gd_link *link = gd_link_new(ctx, gd__find_class(ctx, "tx_late"));
    OK(gd_link_set_child(link, "modules", gd_chain(ctx, "lr(1)")));
    OK(gd_link_set_child(link, "modules", gd_chain(ctx, "adam")));
    expect_print(link, "tx_late(none, 1, \"up\", lr(1), adam)");
    OK(gd_link_set_child(link, "first", gd_chain(ctx, "lr(2)")));
    OK(gd_link_set_real(link, "steps", 3));
    expect_print(link, "tx_late(lr(2), 1, \"up\", lr(1), adam, steps=3)");
    assert_string_equal(name_of(gd_link_child_at(link, 2)), "adam"); /* in the order of their fields */
    gd_link_release(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(classes_that_make_no_sense_are_refused),
        TEST(a_class_belongs_to_its_context),
        TEST(every_built_in_class_makes_sense),
        TEST(settings_are_checked_without_a_text_too),
        TEST(fields_say_what_they_take),
        TEST(what_is_printed_reads_back_with_any_children_of_any_class),
        TEST(children_of_any_number_come_after_all_settings_before_them),
    };
    return cmocka_run_group_tests_name("optim/chain_classes", tests, NULL, NULL);
}
