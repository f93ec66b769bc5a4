/* Classes: order, methods, names without gradients, instances, keyword arguments. */
#include "module/support.h"

#include "module/class_internal.h"

static gd_class *make(gd_ctx *ctx, const char *name, gd_class *a, gd_class *b)
{
    gd_class *bases[] = {a, b};
    return gd_class_new(ctx, name, bases, b ? 2 : a ? 1 : 0);
}

/* The order as "A B Object". */
static const char *order_text(const gd_class *cls, char *out, size_t size)
{
    int count;
    const gd_class *const *order = gd_class_order(cls, &count);
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", gd_class_name(order[i]));
    return out;
}

#define expect_order(cls, text)                                      \
    do {                                                             \
        char buf[1024];                                              \
        assert_string_equal(order_text(cls, buf, sizeof buf), text); \
    } while (0)

static void a_class_without_bases_is_below_object(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL);
    expect_order(a, "A Object");
    assert_true(gd_class_is(a, gd_class_object(ctx)));
    assert_true(gd_class_is(a, a));
    assert_false(gd_class_is(a, gd_class_tensor(ctx)));
    assert_ptr_equal(gd_class_ctx(a), ctx);
}

static void the_built_in_classes_are_made_once_a_context(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_ptr_equal(gd_class_module(ctx), gd_class_module(ctx));
    expect_order(gd_class_module(ctx), "Module Functional Object");
    expect_order(gd_class_tensor(ctx), "Tensor Object");
    assert_ptr_equal(gd_class_linear(ctx), gd_class_linear(ctx));
    expect_order(gd_class_linear(ctx), "Linear Module Functional Object");
}

static void single_bases_give_a_chain(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL), *b = make(ctx, "B", a, NULL), *c = make(ctx, "C", b, NULL);
    expect_order(c, "C B A Object");
}

/* The examples of "The Python 2.3 Method Resolution Order" (Simionato 2003). */
static void several_bases_are_ordered_by_c3(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *d = make(ctx, "D", NULL, NULL), *e = make(ctx, "E", NULL, NULL),
             *f = make(ctx, "F", NULL, NULL);
    gd_class *c = make(ctx, "C", d, f), *b = make(ctx, "B", d, e);
    expect_order(make(ctx, "A", b, c), "A B C D E F Object");
    gd_class *b2 = make(ctx, "B", e, d);
    expect_order(make(ctx, "A", b2, c), "A B E C D F Object");
}

static void an_inconsistent_hierarchy_is_an_error_that_names_the_classes(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *x = make(ctx, "X", NULL, NULL), *y = make(ctx, "Y", NULL, NULL);
    gd_class *a = make(ctx, "A", x, y), *b = make(ctx, "B", y, x);
    assert_null(make(ctx, "Z", a, b));
    assert_non_null(strstr(gd_error_text(ctx), "'Z'"));
    assert_non_null(strstr(gd_error_text(ctx), "'A', 'B'"));
    expect_error(ctx, GD_TYPE, "'X', 'Y'");
    assert_null(make(ctx, "Z", x, a)); /* a base before a class below it */
    expect_error(ctx, GD_TYPE, "no consistent order");
    expect_order(make(ctx, "Z", a, NULL), "Z A X Y Object"); /* the context goes on */
}

static void bad_bases_are_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL);
    assert_null(make(ctx, "B", a, a));
    expect_error(ctx, GD_ARGUMENT, "'A' is given twice");
    gd_ctx *other = gd_ctx_new(NULL);
    assert_null(make(ctx, "B", make(other, "Far", NULL, NULL), NULL));
    expect_error(ctx, GD_ARGUMENT, "different context");
    gd_ctx_free(other);
    assert_null(gd_class_new(ctx, "B", (gd_class *[]){NULL}, 1));
    expect_error(ctx, GD_ARGUMENT, "base 0 is NULL");
    assert_null(gd_class_new(ctx, "", NULL, 0));
    expect_error(ctx, GD_ARGUMENT, "name");
}

/* Random hierarchies: the bases of class k, and the order that CPython 3 gives (NULL: TypeError). */
static const struct {
    const char *bases, *order;
} recorded[] = {
    {"", "0"},
    {"0", "1 0"},
    {"", "2"},
    {"2", "3 2"},
    {"2", "4 2"},
    {"", "5"},
    {"0 5", "6 0 5"},
    {"3 0 1", NULL},
    {"6", "8 6 0 5"},
    {"", "9"},
    {"3", "10 3 2"},
    {"", "11"},
    {"2 5 11", "12 2 5 11"},
    {"5 11 4", "13 5 11 4 2"},
    {"12 6", "14 12 2 6 0 5 11"},
    {"14", "15 14 12 2 6 0 5 11"},
    {"15", "16 15 14 12 2 6 0 5 11"},
    {"", "17"},
    {"15 16", NULL},
    {"14 16 17", NULL},
    {"14 13", NULL},
    {"14", "21 14 12 2 6 0 5 11"},
    {"21", "22 21 14 12 2 6 0 5 11"},
    {"14", "23 14 12 2 6 0 5 11"},
    {"23 21 15", "24 23 21 15 14 12 2 6 0 5 11"},
    {"", "25"},
    {"22 23 17", "26 22 21 23 14 12 2 6 0 5 11 17"},
    {"24", "27 24 23 21 15 14 12 2 6 0 5 11"},
    {"26 22 24", NULL},
    {"25 22", "29 25 22 21 14 12 2 6 0 5 11"},
    {"21", "30 21 14 12 2 6 0 5 11"},
    {"23", "31 23 14 12 2 6 0 5 11"},
    {"25 22", "32 25 22 21 14 12 2 6 0 5 11"},
    {"32 25 27", "33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11"},
    {"24 26", NULL},
    {"33", "35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11"},
    {"", "36"},
    {"35 33 36", "37 35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11 36"},
    {"35 30", "38 35 33 32 25 22 27 24 23 30 21 15 14 12 2 6 0 5 11"},
    {"", "39"},
    {"30", "40 30 21 14 12 2 6 0 5 11"},
    {"39", "41 39"},
    {"37", "42 37 35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11 36"},
    {"", "43"},
    {"37", "44 37 35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11 36"},
    {"37 39 40", "45 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36"},
    {"43 37", "46 43 37 35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11 36"},
    {"44", "47 44 37 35 33 32 25 22 27 24 23 21 15 14 12 2 6 0 5 11 36"},
    {"45 47 42", "48 45 47 44 42 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36"},
    {"41", "49 41 39"},
    {"45", "50 45 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36"},
    {"48 43", "51 48 45 47 44 42 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36 43"},
    {"", "52"},
    {"51 48", "53 51 48 45 47 44 42 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36 43"},
    {"52", "54 52"},
    {"", "55"},
    {"47 50", "56 47 44 50 45 37 35 33 32 25 22 27 24 23 39 40 30 21 15 14 12 2 6 0 5 11 36"},
    {"49 52", "57 49 41 39 52"},
    {"56 57", "58 56 47 44 50 45 37 35 33 32 25 22 27 24 23 57 49 41 39 40 30 21 15 14 12 2 6 0 5 11 36 52"},
    {"52 58", NULL},
    {"56 53", NULL},
    {"58 55",
     "61 58 56 47 44 50 45 37 35 33 32 25 22 27 24 23 57 49 41 39 40 30 21 15 14 12 2 6 0 5 11 36 52 55"},
    {"61 57",
     "62 61 58 56 47 44 50 45 37 35 33 32 25 22 27 24 23 57 49 41 39 40 30 21 15 14 12 2 6 0 5 11 36 52 55"},
    {"58 62 54", NULL},
    {"55 57", "64 55 57 49 41 39 52"},
    {"64 55 62", NULL},
    {"61 57 62", NULL},
    {"", "67"},
    {"67", "68 67"},
    {"67", "69 67"},
    {"", "70"},
    {"69", "71 69 67"},
    {"68", "72 68 67"},
    {"72 68", "73 72 68 67"},
    {"72 70", "74 72 68 67 70"},
    {"72 73", NULL},
    {"", "76"},
    {"69 67 76", "77 69 67 76"},
    {"70", "78 70"},
    {"78 70 69", "79 78 70 69 67"},
    {"78 79", NULL},
    {"72 79 71", "81 72 68 79 78 70 71 69 67"},
    {"", "82"},
    {"81", "83 81 72 68 79 78 70 71 69 67"},
    {"79 82 77", "84 79 78 70 82 77 69 67 76"},
    {"82 83", "85 82 83 81 72 68 79 78 70 71 69 67"},
    {"83 78", "86 83 81 72 68 79 78 70 71 69 67"},
    {"78 83 84", NULL},
    {"79 81", NULL},
    {"81", "89 81 72 68 79 78 70 71 69 67"},
};

static void random_hierarchies_have_the_order_that_python_gives(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *all[sizeof recorded / sizeof *recorded] = {0};
    for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++) {
        gd_class *bases[8];
        int count = 0;
        char *end_of = NULL;
        for (const char *at = recorded[k].bases; *at; at = *end_of ? end_of + 1 : end_of)
            bases[count++] = all[strtol(at, &end_of, 10)];
        char name[16], expected[1024] = "";
        snprintf(name, sizeof name, "%zu", k);
        all[k] = gd_class_new(ctx, name, bases, count);
        if (!recorded[k].order) {
            assert_null(all[k]);
            expect_error(ctx, GD_TYPE, "no consistent order");
            continue;
        }
        snprintf(expected, sizeof expected, "%s Object", recorded[k].order);
        expect_order(all[k], expected);
    }
}

/* ---- methods ---- */

static gd_object *say(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    int64_t *counter = user;
    if (gd_kwargs_int(gd_object_ctx(self), kwargs, "by", counter)) return NULL;
    return gd_instance_new(gd_class_object(gd_object_ctx(self)), counter, NULL);
}

static void a_method_is_found_by_the_order_of_the_class(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL), *b = make(ctx, "B", a, NULL), *c = make(ctx, "C", b, NULL);
    int64_t of_a = 0, of_b = 0;
    ok(gd_class_add_method(a, "say", say, &of_a));
    gd_scope_begin(ctx);
    gd_object *object = gd_instance_new(c, NULL, NULL);
    assert_ptr_equal(gd_instance_pointer(gd_call_method(object, "say", NULL)), &of_a);
    ok(gd_class_add_method(b, "say", say, &of_b)); /* a more specific one from now on */
    assert_ptr_equal(gd_instance_pointer(gd_call_method(object, "say", NULL)), &of_b);
    ok(gd_class_add_method(b, "say", say, &of_a)); /* the same class again: replaced */
    assert_ptr_equal(gd_instance_pointer(gd_call_method(object, "say", GD_KWARGS(gd_int_argument("by", 5)))),
                     &of_a);
    assert_int_equal(of_a, 5);
    assert_true(gd_class_has_method(c, "say"));
    assert_false(gd_class_has_method(c, "shout"));
    gd_scope_end(ctx);
}

static gd_object *nothing(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)self, (void)kwargs, (void)user;
    return NULL;
}

static void a_method_that_is_not_there_is_an_attribute_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL);
    gd_object *object = gd_instance_new(a, NULL, NULL);
    assert_null(gd_call_method(object, "say", NULL));
    expect_error(ctx, GD_ATTRIBUTE, "class 'A' has no method 'say'");
    ok(gd_class_add_method(a, "nothing", nothing, NULL));
    assert_null(gd_call_method(object, "nothing", NULL));
    expect_error(ctx, GD_CALLBACK, "'nothing' of class 'A' returned nothing");
    assert_int_equal(gd_class_add_method(a, "not a name", say, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "identifier");
    assert_int_equal(gd_class_add_method(a, "1st", say, NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
    assert_null(gd_call_method(NULL, "say", NULL));
    gd_object_release(object);
}

/* ---- names without gradients ---- */

static void names_without_gradients_add_up_over_all_bases(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = module_class(ctx, "A"), *b = module_class(ctx, "B");
    ok(gd_class_no_grad(a, "basis, projector"));
    ok(gd_class_no_grad(b, "mask"));
    gd_class *c = make(ctx, "C", a, b);
    ok(gd_class_no_grad(c, "offset")); /* extends what is inherited, never replaces it */
    const char *names[] = {"basis", "projector", "mask", "offset"};
    for (size_t i = 0; i < 4; i++) assert_true(gd_class_is_no_grad(c, names[i]));
    assert_false(gd_class_is_no_grad(c, "weight"));
    assert_false(gd_class_is_no_grad(a, "offset"));
    assert_false(gd_class_is_no_grad(a, "bas"));
    assert_true(gd_class_is_no_grad(make(ctx, "D", c, NULL), "mask"));
    assert_false(gd_class_is_no_grad(gd_class_module(ctx), "basis")); /* none by default */
}

static void only_classes_of_modules_declare_names_without_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_int_equal(gd_class_no_grad(make(ctx, "A", NULL, NULL), "x"), GD_TYPE);
    expect_error(ctx, GD_TYPE, "'A'");
    gd_class *m = module_class(ctx, "M");
    assert_int_equal(gd_class_no_grad(m, "good, b.d"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "'b.d'");
    assert_false(gd_class_is_no_grad(m, "good")); /* all of the names or none */
}

/* ---- objects ---- */

static void count_end(void *pointer) { ++*(int *)pointer; }

static void an_instance_makes_a_struct_an_object_and_ends_it(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL);
    int ends = 0;
    gd_object *object = gd_instance_new(a, &ends, count_end);
    assert_ptr_equal(gd_instance_pointer(object), &ends);
    assert_ptr_equal(gd_object_class(object), a);
    assert_true(gd_object_is(object, gd_class_object(ctx)));
    gd_object_release(gd_object_retain(object));
    assert_int_equal(ends, 0);
    gd_object_release(object);
    assert_int_equal(ends, 1);
}

static void an_instance_made_in_a_scope_dies_with_it_unless_kept(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = make(ctx, "A", NULL, NULL);
    int ends = 0;
    gd_scope_begin(ctx);
    gd_instance_new(a, &ends, count_end);
    gd_object *kept = gd_object_keep(gd_instance_new(a, &ends, count_end));
    gd_scope_end(ctx);
    assert_int_equal(ends, 1);
    gd_object_release(kept);
    assert_int_equal(ends, 2);
}

static void an_instance_cannot_be_of_a_class_of_tensors_or_modules(void **state)
{
    gd_ctx *ctx = CTX(state);
    int ends = 0;
    assert_null(gd_instance_new(gd_class_module(ctx), &ends, count_end));
    expect_error(ctx, GD_TYPE, "below Module");
    assert_null(gd_instance_new(gd_class_tensor(ctx), &ends, count_end));
    expect_error(ctx, GD_TYPE, "below Tensor");
    assert_int_equal(ends, 0); /* still the caller's */
}

static void every_object_knows_what_it_is(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_scalar(ctx, GD_F64, 1);
    gd_module *m = gd_module_new(gd_class_module(ctx));
    gd_object *i = gd_instance_new(gd_class_object(ctx), NULL, NULL);
    assert_ptr_equal(gd_object_class(gd_tensor_object(t)), gd_class_tensor(ctx));
    assert_ptr_equal(gd_object_class(gd_module_object(m)), gd_class_module(ctx));
    assert_ptr_equal(gd_object_tensor(gd_tensor_object(t)), t);
    assert_ptr_equal(gd_object_module(gd_module_object(m)), m);
    assert_null(gd_object_tensor(gd_module_object(m)));
    expect_error(ctx, GD_TYPE, "a tensor was expected, this is of class 'Module'");
    assert_null(gd_object_module(i));
    expect_error(ctx, GD_TYPE, "a module was expected");
    assert_null(gd_instance_pointer(gd_tensor_object(t)));
    expect_error(ctx, GD_TYPE, "an instance was expected, this is of class 'Tensor'");
    assert_null(gd_object_tensor(NULL));
    gd_scope_end(ctx);
}

static void a_tensor_can_be_given_a_class_below_tensor(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *spin = make(ctx, "Spin", gd_class_tensor(ctx), NULL);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_scalar(ctx, GD_F64, 1);
    ok(gd_tensor_set_class(t, spin));
    assert_ptr_equal(gd_object_class(gd_tensor_object(t)), spin);
    assert_int_equal(gd_tensor_set_class(t, gd_class_module(ctx)), GD_TYPE);
    expect_error(ctx, GD_TYPE, "'Module'");
    gd_scope_end(ctx);
}

/* ---- keyword arguments ---- */

static void keywords_are_read_by_name_and_kind(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_scalar(ctx, GD_F64, 1);
    gd_object *o = gd_instance_new(gd_class_object(ctx), NULL, NULL);
    int payload;
    const gd_kwargs *kwargs = GD_KWARGS(gd_int_argument("i", 3), gd_real_argument("r", 2.5),
                                        gd_string_argument("s", "text"), gd_pointer_argument("p", &payload),
                                        gd_object_argument("o", o), gd_tensor_argument("t", t));
    assert_int_equal(kwargs->count, 6);
    assert_string_equal(kwargs->argument[1].name, "r"); /* in order */
    int64_t i = 0;
    double r = 0, whole = 0;
    const char *s = NULL;
    void *p = NULL;
    gd_object *object = NULL;
    gd_tensor *tensor = NULL;
    ok(gd_kwargs_int(ctx, kwargs, "i", &i));
    ok(gd_kwargs_real(ctx, kwargs, "r", &r));
    ok(gd_kwargs_real(ctx, kwargs, "i", &whole));
    ok(gd_kwargs_string(ctx, kwargs, "s", &s));
    ok(gd_kwargs_pointer(ctx, kwargs, "p", &p));
    ok(gd_kwargs_object(ctx, kwargs, "o", &object));
    ok(gd_kwargs_tensor(ctx, kwargs, "t", &tensor));
    assert_int_equal(i, 3);
    assert_true(r == 2.5 && whole == 3);
    assert_string_equal(s, "text");
    assert_ptr_equal(p, &payload);
    assert_ptr_equal(object, o);
    assert_ptr_equal(tensor, t);
    assert_int_equal(gd_kwargs_tensor(ctx, kwargs, "o", &tensor), GD_TYPE);
    expect_error(ctx, GD_TYPE, "'o' must be a tensor");
    gd_scope_end(ctx);
}

static void a_keyword_that_was_not_given_leaves_the_default(void **state)
{
    gd_ctx *ctx = CTX(state);
    int64_t axis = -1;
    ok(gd_kwargs_int(ctx, NULL, "axis", &axis));
    ok(gd_kwargs_int(ctx, GD_KWARGS(gd_int_argument("other", 3)), "axis", &axis));
    assert_int_equal(axis, -1);
    assert_null(gd_kwargs_find(NULL, "axis"));
}

static void a_keyword_of_another_kind_is_a_type_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    int64_t axis = -1;
    assert_int_equal(gd_kwargs_int(ctx, GD_KWARGS(gd_string_argument("axis", "x")), "axis", &axis), GD_TYPE);
    expect_error(ctx, GD_TYPE, "'axis' must be an int, got a string");
    assert_int_equal(axis, -1);
}

static void an_unexpected_keyword_can_be_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    const gd_kwargs *kwargs = GD_KWARGS(gd_int_argument("axis", 1), gd_int_argument("scale", 1));
    ok(gd_kwargs_only(ctx, kwargs, "scale, axis"));
    ok(gd_kwargs_only(ctx, NULL, NULL));
    assert_int_equal(gd_kwargs_only(ctx, kwargs, "axis"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "'scale' is not expected");
    assert_int_equal(gd__kwargs_check(ctx, "here", GD_KWARGS(gd_int_argument(NULL, 1))), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "here: keyword 0 has no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_class_without_bases_is_below_object),
        TEST(the_built_in_classes_are_made_once_a_context),
        TEST(single_bases_give_a_chain),
        TEST(several_bases_are_ordered_by_c3),
        TEST(an_inconsistent_hierarchy_is_an_error_that_names_the_classes),
        TEST(bad_bases_are_refused),
        TEST(random_hierarchies_have_the_order_that_python_gives),
        TEST(a_method_is_found_by_the_order_of_the_class),
        TEST(a_method_that_is_not_there_is_an_attribute_error),
        TEST(names_without_gradients_add_up_over_all_bases),
        TEST(only_classes_of_modules_declare_names_without_gradients),
        TEST(an_instance_makes_a_struct_an_object_and_ends_it),
        TEST(an_instance_made_in_a_scope_dies_with_it_unless_kept),
        TEST(an_instance_cannot_be_of_a_class_of_tensors_or_modules),
        TEST(every_object_knows_what_it_is),
        TEST(a_tensor_can_be_given_a_class_below_tensor),
        TEST(keywords_are_read_by_name_and_kind),
        TEST(a_keyword_that_was_not_given_leaves_the_default),
        TEST(a_keyword_of_another_kind_is_a_type_error),
        TEST(an_unexpected_keyword_can_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
