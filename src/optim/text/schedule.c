/* Schedules: values, checks, text; see gradus/schedule.h.
 *
 * One row per kind: its name, its arguments as fields, its formula.  Constructors, ranges, parser and printer use the rows.
 * Number k of a schedule belongs to the k-th REAL field. */
#include "gradus/schedule.h"
#include "gradus/link.h"
#include "base/text/scan.h"
#include "optim/text/setting.h"
#include "base/text/suggest.h"

#include <math.h>
#include <string.h>

#define LARGEST 9007199254740992.0 /* steps are whole numbers in doubles */

/* ---- formulas: n are the numbers, t the step from 0 ---- */

/* Exactly a where w is 1 and b where it is 0. */
static double mix(double a, double b, double w) { return a * w + b * (1 - w); }

static double progress(double t, double steps) { return t < steps ? t / steps : 1; }

static double half_cosine(double first, double last, double x)
{
    return mix(first, last, (1 + cos(M_PI * x)) / 2);
}

static double constant_value(const gd_schedule *s, double t)
{
    (void)t;
    return s->number[0];
}

static double linear_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    return mix(n[0], n[1], 1 - progress(t, n[2]));
}

static double cosine_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    return half_cosine(n[0], n[1], progress(t, n[2]));
}

static double restarts_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    double period = n[2], factor = n[3];
    if (!(period >= 1 && factor >= 1)) return NAN;
    if (factor == 1) t = fmod(t, period);
    /* each round is at least twice as long: few rounds */
    for (; factor >= 2 && t >= period; period *= factor) t -= period;
    return half_cosine(n[0], n[1], t / period);
}

static double exponential_value(const gd_schedule *s, double t)
{
    return s->number[0] * pow(s->number[1], t);
}

static double polynomial_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    return mix(n[0], n[1], pow(1 - progress(t, n[2]), n[3]));
}

static double step_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    return n[0] * pow(n[2], floor(t / n[1]));
}

static double multistep_value(const gd_schedule *s, double t)
{
    int passed = 0;
    while (passed < s->milestones && s->milestone[passed] <= t) passed++;
    return s->number[0] * pow(s->number[1], passed);
}

static double one_cycle_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    double peak = n[0], start = peak / n[3], top = n[2] * n[1] - 1, end = n[1] - 1;
    if (t < top) return half_cosine(start, peak, t / top);
    double x = t < end ? (t - fmax(top, 0)) / (end - fmax(top, 0)) : 1;
    return half_cosine(peak, start / n[4], x);
}

static double wsd_value(const gd_schedule *s, double t)
{
    const double *n = s->number;
    if (t < n[2]) return n[0] * (t / n[2]);
    t -= n[2] + n[3];
    return t < 0 ? n[0] : mix(n[0], n[1], 1 - progress(t, n[4]));
}

/* ---- turns: steps from 0 between which the values only rise or only fall; each returns how many ---- */

#define MOST_TURNS (GD_SCHEDULE_MILESTONES + 4)

static int first_turn(const gd_schedule *s, double *t)
{
    (void)s;
    t[0] = 0;
    return 1;
}

static int turns_of_linear(const gd_schedule *s, double *t)
{
    t[0] = 0;
    t[1] = s->number[2];
    return 2;
}

/* The last step of a round comes nearest to `last`; growing rounds come arbitrarily near. */
static int turns_of_restarts(const gd_schedule *s, double *t)
{
    t[0] = 0;
    t[1] = s->number[2] - 1;
    t[2] = s->number[2];
    if (s->number[3] == 1) return 3;
    for (t[3] = t[2]; t[3] < LARGEST / (2 * s->number[3]);) t[3] = t[3] * s->number[3] + t[2];
    t[3] -= 1;
    return 4;
}

static int turns_for_ever(const gd_schedule *s, double *t)
{
    (void)s;
    t[0] = 0;
    t[1] = LARGEST;
    return 2;
}

static int turns_of_multistep(const gd_schedule *s, double *t)
{
    t[0] = 0;
    memcpy(t + 1, s->milestone, (size_t)s->milestones * sizeof *t);
    return 1 + s->milestones;
}

/* The peak is between two steps. */
static int turns_of_one_cycle(const gd_schedule *s, double *t)
{
    double top = fmax(s->number[2] * s->number[1] - 1, 0);
    t[0] = 0;
    t[1] = floor(top);
    t[2] = ceil(top);
    t[3] = s->number[1] - 1;
    return 4;
}

static int turns_of_wsd(const gd_schedule *s, double *t)
{
    t[0] = 0;
    for (int i = 0; i < 3; i++) t[i + 1] = t[i] + s->number[2 + i];
    return 4;
}

/* ---- the rows ---- */

#define VALUE(n)            GD_REAL_NEEDED(n, -INFINITY, INFINITY, NULL)
#define STEPS(n, low)       GD_INT_NEEDED(n, low, LARGEST, NULL)
#define OPTION(n, d, lo, h) GD_REAL(n, d, lo, h, NULL)

static const gd_field constant_fields[] = {VALUE("value")};
static const gd_field linear_fields[] = {VALUE("first"), VALUE("last"), STEPS("steps", 0)};
static const gd_field restarts_fields[] = {VALUE("first"), VALUE("last"), STEPS("period", 1),
                                           GD_INT("factor", 1, 1, LARGEST, NULL)};
static const gd_field exponential_fields[] = {VALUE("first"), GD_REAL_NEEDED("factor", 0, INFINITY, NULL)};
static const gd_field polynomial_fields[] = {VALUE("first"), VALUE("last"), STEPS("steps", 0),
                                             OPTION("power", 1, 0, INFINITY)};
static const gd_field step_fields[] = {VALUE("first"), STEPS("every", 1), OPTION("factor", 0.1, 0, INFINITY)};
static const gd_field multistep_fields[] = {
    VALUE("first"),
    {.name = "milestones", .kinds = GD_SET_LIST, .low = 0, .high = LARGEST, .integer = true},
    OPTION("factor", 0.1, 0, INFINITY)};
static const gd_field one_cycle_fields[] = {VALUE("peak"), STEPS("steps", 1), OPTION("rise", 0.3, 0, 1),
                                            OPTION("divide", 25, 1, INFINITY),
                                            OPTION("final_divide", 1e4, 1, INFINITY)};
static const gd_field wsd_fields[] = {VALUE("peak"), VALUE("last"), STEPS("warmup", 0), STEPS("stable", 0),
                                      STEPS("decay", 0)};
/* a warm-up is not a separate kind, but has a text */
static const gd_field warmup_fields[] = {
    STEPS("steps", 0), {.name = "after", .kinds = GD_SET_CHAIN}, OPTION("start", 0, -INFINITY, INFINITY)};

typedef struct row {
    const char *name;
    const gd_field *fields;
    int count;
    double (*value)(const gd_schedule *s, double t);
    int (*turns)(const gd_schedule *s, double *t);
} row;

#define ROW(kind, name, fields, value, turns) \
    [GD_SCHEDULE_##kind] = {name, fields, (int)(sizeof fields / sizeof *fields), value, turns}

static const row rows[] = {
    ROW(INVALID, "warmup", warmup_fields, NULL, NULL),
    ROW(CONSTANT, "constant", constant_fields, constant_value, first_turn),
    ROW(LINEAR, "linear", linear_fields, linear_value, turns_of_linear),
    ROW(COSINE, "cosine", linear_fields, cosine_value, turns_of_linear),
    ROW(COSINE_RESTARTS, "cosine_restarts", restarts_fields, restarts_value, turns_of_restarts),
    ROW(EXPONENTIAL, "exponential", exponential_fields, exponential_value, turns_for_ever),
    ROW(POLYNOMIAL, "polynomial", polynomial_fields, polynomial_value, turns_of_linear),
    ROW(STEP, "step", step_fields, step_value, turns_for_ever),
    ROW(MULTISTEP, "multistep", multistep_fields, multistep_value, turns_of_multistep),
    ROW(ONE_CYCLE, "one_cycle", one_cycle_fields, one_cycle_value, turns_of_one_cycle),
    ROW(WSD, "wsd", wsd_fields, wsd_value, turns_of_wsd),
};

#define ROWS   ((int)(sizeof rows / sizeof *rows))
#define WARMUP (&rows[GD_SCHEDULE_INVALID])

/* The row of a valid kind, or NULL. */
static const row *row_of(const gd_schedule *s)
{
    return (int)s->kind > GD_SCHEDULE_INVALID && (int)s->kind < ROWS ? &rows[s->kind] : NULL;
}

/* ---- constructors ---- */

gd_schedule gd_schedule_constant(double value)
{
    return (gd_schedule){.kind = GD_SCHEDULE_CONSTANT, .number = {value}};
}

gd_schedule gd_schedule_linear(double first, double last, int64_t steps)
{
    return (gd_schedule){.kind = GD_SCHEDULE_LINEAR, .number = {first, last, (double)steps}};
}

gd_schedule gd_schedule_cosine(double first, double last, int64_t steps)
{
    return (gd_schedule){.kind = GD_SCHEDULE_COSINE, .number = {first, last, (double)steps}};
}

gd_schedule gd_schedule_cosine_restarts(double first, double last, int64_t period, int64_t factor)
{
    return (gd_schedule){.kind = GD_SCHEDULE_COSINE_RESTARTS,
                         .number = {first, last, (double)period, (double)factor}};
}

gd_schedule gd_schedule_exponential(double first, double factor)
{
    return (gd_schedule){.kind = GD_SCHEDULE_EXPONENTIAL, .number = {first, factor}};
}

gd_schedule gd_schedule_polynomial(double first, double last, int64_t steps, double power)
{
    return (gd_schedule){.kind = GD_SCHEDULE_POLYNOMIAL, .number = {first, last, (double)steps, power}};
}

gd_schedule gd_schedule_step(double first, int64_t every, double factor)
{
    return (gd_schedule){.kind = GD_SCHEDULE_STEP, .number = {first, (double)every, factor}};
}

gd_schedule gd_schedule_multistep(double first, const int64_t *milestones, int count, double factor)
{
    if (count < 0 || count > GD_SCHEDULE_MILESTONES || (count && !milestones))
        return (gd_schedule){.kind = GD_SCHEDULE_INVALID};
    gd_schedule s = {.kind = GD_SCHEDULE_MULTISTEP, .number = {first, factor}, .milestones = count};
    for (int i = 0; i < count; i++) s.milestone[i] = (double)milestones[i];
    return s;
}

gd_schedule gd_schedule_one_cycle(double peak, int64_t steps, double rise, double divide, double final_divide)
{
    return (gd_schedule){.kind = GD_SCHEDULE_ONE_CYCLE,
                         .number = {peak, (double)steps, rise, divide, final_divide}};
}

gd_schedule gd_schedule_wsd(double peak, double last, int64_t warmup, int64_t stable, int64_t decay)
{
    return (gd_schedule){.kind = GD_SCHEDULE_WSD,
                         .number = {peak, last, (double)warmup, (double)stable, (double)decay}};
}

gd_schedule gd_schedule_warmup(int64_t steps, gd_schedule after, double start)
{
    if (after.warmup_steps != 0) return (gd_schedule){.kind = GD_SCHEDULE_INVALID};
    after.warmup_steps = (double)steps;
    after.warmup_start = steps ? start : 0;
    return after;
}

/* ---- values ---- */

double gd_schedule_value(const gd_schedule *s, int64_t step)
{
    if (!s) return NAN;
    const row *r = row_of(s);
    double t = step < 0 ? 0 : (double)step;
    if (!r) return NAN;
    if (t < s->warmup_steps) return mix(r->value(s, 0), s->warmup_start, t / s->warmup_steps);
    return r->value(s, t - s->warmup_steps);
}

/* The argument of field `index` as a setting; the number it has is *number. */
static gd_setting argument(const gd_schedule *s, const row *r, int index)
{
    int number = 0;
    for (int i = 0; i < index; i++) number += r->fields[i].kinds == GD_SET_REAL;
    if (r->fields[index].kinds == GD_SET_LIST)
        return (gd_setting){.kind = GD_SET_LIST, .list = s->milestone, .list_count = s->milestones};
    return (gd_setting){.kind = GD_SET_REAL, .real = s->number[number]};
}

static bool ascending(const gd_schedule *s)
{
    for (int i = 1; i < s->milestones; i++)
        if (s->milestone[i - 1] >= s->milestone[i]) return false;
    return true;
}

gd_status gd_schedule_check(gd_ctx *ctx, const gd_schedule *s)
{
    if (!ctx || !s) return gd__null(ctx, "schedule: it is NULL");
    const row *r = row_of(s);
    if (!r) return gd_fail(ctx, GD_VALUE, "schedule: of no kind, or with too many milestones or warm-ups");
    gd_status status = GD_OK;
    for (int i = 0; i < r->count && !status; i++) {
        gd_setting value = argument(s, r, i);
        status = gd__field_check_of(ctx, NULL, r->name, &r->fields[i], &value);
    }
    gd_setting steps = {.kind = GD_SET_REAL, .real = s->warmup_steps};
    gd_setting start = {.kind = GD_SET_REAL, .real = s->warmup_start};
    if (!status) status = gd__field_check_of(ctx, NULL, WARMUP->name, &warmup_fields[0], &steps);
    if (!status) status = gd__field_check_of(ctx, NULL, WARMUP->name, &warmup_fields[2], &start);
    if (!status && !ascending(s)) status = gd_fail(ctx, GD_VALUE, "multistep: milestones must ascend");
    return status;
}

/* ---- a schedule and the field it drives ---- */

/* All turning points, with those of the warm-up; ascending. */
static int all_turns(const gd_schedule *s, const row *r, double *t)
{
    double after[MOST_TURNS];
    int count = 0, n = r->turns(s, after);
    if (s->warmup_steps > 0) t[count++] = 0;
    for (int i = 0; i < n; i++) t[count++] = s->warmup_steps + after[i];
    return count;
}

static double value_at(const gd_schedule *s, double t) { return gd_schedule_value(s, (int64_t)t); }

/* The first step after `good` up to `bad` whose value the field does not take; the range is left once. */
static double first_outside(const gd_field *field, const gd_schedule *s, double good, double bad)
{
    while (bad - good > 1) {
        double middle = good + floor((bad - good) / 2);
        if (gd__field_in_range(field, value_at(s, middle)))
            good = middle;
        else
            bad = middle;
    }
    return bad;
}

/* linear(2, 8, 3) means 4 at step 1, whatever 2 * (2 / 3.0) + 8 * (1 / 3.0) is. */
double gd__snap(double value)
{
    double whole = rint(value);
    return fabs(value - whole) <= 1e-9 * fmax(1, fabs(value)) ? whole : value;
}

#define WALK 4096 /* steps checked between turning points: a value that is not whole shows quickly */

/* The first step in [begin, end) with a value that is not whole, -1: none. */
static double first_broken(const gd_schedule *s, double begin, double end)
{
    double stride = s->kind == GD_SCHEDULE_STEP ? s->number[1] : 1;
    for (int i = 0; i < WALK && begin + i * stride < end; i++) {
        double value = gd__snap(value_at(s, begin + i * stride));
        if (value != floor(value)) return begin + i * stride;
    }
    return -1;
}

static gd_status refuse_step(gd_ctx *ctx, const char *before, const char *owner, const gd_field *field,
                             const gd_schedule *s, double t)
{
    char where[2 * GD_WHERE_SIZE], number[GD_NUMBER_SIZE];
    gd_print text = gd__print(where, sizeof where);
    gd__print_text(&text, before && *before ? before : "schedule: ");
    gd__print_text(&text, "step ");
    gd__print_text(&text, gd__number_text(t, number));
    gd__print_text(&text, ": ");
    gd_setting value = {.kind = GD_SET_REAL, .real = value_at(s, t)};
    return gd__field_check_of(ctx, where, owner, field, &value);
}

gd_status gd__schedule_fits(gd_ctx *ctx, const char *where, const char *owner, const gd_field *field,
                            const gd_schedule *s)
{
    double t[MOST_TURNS + 1];
    const row *r = row_of(s);
    int count = r ? all_turns(s, r, t) : 0;
    if (!r || !(field->kinds & GD_SET_REAL)) return refuse_step(ctx, where, owner, field, s, 0);
    for (int i = 0; i < count; i++) {
        if (!gd__field_in_range(field, value_at(s, t[i])))
            return refuse_step(ctx, where, owner, field, s,
                               i ? first_outside(field, s, t[i - 1], t[i]) : t[i]);
        double broken = field->integer ? first_broken(s, t[i], i + 1 < count ? t[i + 1] : t[i] + 1) : -1;
        if (broken >= 0) return refuse_step(ctx, where, owner, field, s, broken);
    }
    return GD_OK;
}

bool gd_schedule_equal(const gd_schedule *a, const gd_schedule *b)
{
    if (!a || !b) return a == b;
    bool same = a->kind == b->kind && a->milestones == b->milestones && a->warmup_steps == b->warmup_steps &&
                a->warmup_start == b->warmup_start;
    for (int i = 0; i < 5; i++) same = same && a->number[i] == b->number[i];
    for (int i = 0; i < a->milestones && same; i++) same = a->milestone[i] == b->milestone[i];
    return same;
}

/* ---- reading ---- */

/* The schedule whose arguments are being read. */
typedef struct call {
    const row *row;
    unsigned given;
    int next; /* by position; -1 once one came by name */
    gd_schedule *out;
} call;

static gd_status parse_milestones(gd_text_scan *s, gd_schedule *out)
{
    size_t open = s->at;
    if (gd__scan_peek(s) != '[') return gd__scan_expected(s, "a list of steps");
    gd_status status = gd__scan_open(s);
    while (!status && (gd__scan_peek(s) != ']' || out->milestones)) {
        if (out->milestones == GD_SCHEDULE_MILESTONES)
            return gd__scan_fail(s, s->at, "more than %d milestones", GD_SCHEDULE_MILESTONES);
        status = gd__scan_number(s, &out->milestone[out->milestones++]);
        if (!gd__scan_take(s, ',')) break;
    }
    if (!status && !ascending(out)) status = gd__scan_fail(s, open, "multistep: milestones must ascend");
    return status ? status : gd__scan_close(s, ']', open);
}

/* The field of the next argument, its `name =` taken. */
static gd_status find_field(gd_text_scan *s, call *c, int *field)
{
    size_t begin = s->at;
    *field = c->next;
    if (!gd__scan_is_assignment(s)) {
        if (c->next < 0)
            return gd__scan_fail(s, begin, "%s: a value by position after one by name", c->row->name);
        if (c->next >= c->row->count)
            return gd__scan_fail(s, begin, "%s takes at most %d values", c->row->name, c->row->count);
        c->next++;
        return GD_OK;
    }
    char name[GD_NAME_SIZE], hint[GD_HINT_SIZE];
    gd_status status = gd__scan_name(s, name);
    if (status) return status;
    (void)gd__scan_take(s, '=');
    c->next = -1;
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (*field = 0; *field < c->row->count; ++*field) {
        const char *known = c->row->fields[*field].name;
        gd__suggest_try(&nearest, known);
        if (strcmp(known, name)) continue;
        return c->given >> *field & 1 ? gd__scan_fail(s, begin, "%s: %s is given twice", c->row->name, name)
                                      : GD_OK;
    }
    return gd__scan_fail(s, begin, "%s has no '%s'%s", c->row->name, name, gd__suggest_hint(&nearest, hint));
}

/* Where the number of a REAL field goes. */
static double *place(const call *c, int field)
{
    if (c->row == WARMUP) return field == 0 ? &c->out->warmup_steps : &c->out->warmup_start;
    int number = 0;
    for (int i = 0; i < field; i++) number += c->row->fields[i].kinds == GD_SET_REAL;
    return &c->out->number[number];
}

/* The schedule after a warm-up; steps and start may come before and after it. */
static gd_status parse_after(gd_text_scan *s, gd_schedule *out)
{
    size_t begin = s->at;
    gd_schedule after = {.kind = GD_SCHEDULE_INVALID};
    gd_status status = gd__scan_schedule(s, &after);
    if (!status && after.warmup_steps != 0) status = gd__scan_fail(s, begin, "a warm-up inside a warm-up");
    after.warmup_steps = out->warmup_steps;
    after.warmup_start = out->warmup_start;
    if (!status) *out = after;
    return status;
}

static gd_status parse_argument(gd_text_scan *s, call *c)
{
    int index;
    (void)gd__scan_peek(s);
    gd_status status = find_field(s, c, &index);
    if (status) return status;
    const gd_field *field = &c->row->fields[index];
    char where[GD_WHERE_SIZE];
    (void)gd__scan_peek(s);
    size_t begin = s->at;
    gd_setting value = {.kind = GD_SET_REAL};
    c->given |= 1u << index;
    if (field->kinds == GD_SET_CHAIN) return parse_after(s, c->out);
    if (field->kinds == GD_SET_LIST) {
        status = parse_milestones(s, c->out);
        value = (gd_setting){
            .kind = GD_SET_LIST, .list = c->out->milestone, .list_count = c->out->milestones};
    } else {
        status = gd__scan_number(s, &value.real);
        *place(c, index) = value.real;
    }
    if (status) return status;
    return gd__field_check_of(s->ctx, gd__scan_where(s, begin, where), c->row->name, field, &value);
}

/* Missing arguments get their defaults. */
static gd_status fill_in(gd_text_scan *s, size_t at, call *c)
{
    for (int i = 0; i < c->row->count; i++) {
        const gd_field *field = &c->row->fields[i];
        if (c->given >> i & 1) continue;
        if (!field->fallback.kind) return gd__scan_fail(s, at, "%s: needs '%s'", c->row->name, field->name);
        *place(c, i) = field->fallback.real;
    }
    /* a warm-up of 0 steps is none */
    if (c->row == WARMUP && c->out->warmup_steps == 0) c->out->warmup_start = 0;
    return GD_OK;
}

bool gd__is_schedule(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return true;
    return false;
}

static const row *find_row(gd_text_scan *s, size_t at, const char *name)
{
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (int i = 0; i < ROWS; i++) {
        gd__suggest_try(&nearest, rows[i].name);
        if (!strcmp(rows[i].name, name)) return &rows[i];
    }
    char hint[GD_HINT_SIZE];
    (void)gd__scan_fail(s, at, "schedule '%s' unknown%s", name, gd__suggest_hint(&nearest, hint));
    return NULL;
}

static gd_status parse_call(gd_text_scan *s, gd_schedule *out)
{
    size_t begin = s->at;
    char name[GD_NAME_SIZE];
    gd_status status = gd__scan_name(s, name);
    call c = {.out = out};
    if (status || !(c.row = find_row(s, begin, name))) return GD_PARSE;
    if (c.row != WARMUP) out->kind = (gd_schedule_kind)(c.row - rows);
    if (gd__scan_peek(s) != '(') return fill_in(s, begin, &c);
    size_t open = s->at;
    status = gd__scan_open(s);
    if (!status && gd__scan_peek(s) != ')') {
        do status = parse_argument(s, &c);
        while (!status && gd__scan_take(s, ','));
    }
    if (!status) status = gd__scan_close(s, ')', open);
    return status ? status : fill_in(s, begin, &c);
}

gd_status gd__scan_schedule(gd_text_scan *s, gd_schedule *out)
{
    *out = (gd_schedule){.kind = GD_SCHEDULE_CONSTANT};
    (void)gd__scan_peek(s);
    if (gd__scan_is_name(s)) return parse_call(s, out);
    if (!gd__scan_is_number(s)) return gd__scan_expected(s, "a schedule");
    size_t begin = s->at;
    char where[GD_WHERE_SIZE];
    gd_setting value = {.kind = GD_SET_REAL};
    gd_status status = gd__scan_number(s, &value.real);
    if (status) return status;
    out->number[0] = value.real;
    return gd__field_check_of(s->ctx, gd__scan_where(s, begin, where), "constant", &constant_fields[0],
                              &value);
}

gd_status gd__scan_scheduled(gd_text_scan *s, gd_schedule *schedule, gd_setting *out)
{
    gd_status status = gd__scan_schedule(s, schedule);
    *out = (gd_setting){.kind = GD_SET_REAL, .real = gd_schedule_value(schedule, 0), .schedule = schedule};
    return status;
}

bool gd__scan_is_schedule(gd_text_scan *s, const char *word)
{
    return gd__is_schedule(word) || gd__scan_peek(s) == '(';
}

gd_status gd_schedule_parse(gd_ctx *ctx, const char *text, gd_schedule *out)
{
    gd_text_scan s;
    gd_schedule read;
    gd_status status = gd__scan_begin(&s, ctx, "schedule", text);
    if (!status) status = gd__scan_schedule(&s, &read);
    if (!status && gd__scan_peek(&s)) status = gd__scan_expected(&s, "the end");
    if (!status) *out = read;
    return status;
}

/* ---- writing ---- */

static void print_plain(gd_print *p, const gd_schedule *s, const row *r)
{
    gd__print_text(p, r->name);
    for (int i = 0; i < r->count; i++) {
        const gd_field *field = &r->fields[i];
        gd_setting value = argument(s, r, i);
        if (field->fallback.kind && gd__setting_equal(&value, &field->fallback)) continue;
        gd__print_text(p, i ? ", " : "(");
        if (field->fallback.kind) {
            gd__print_text(p, field->name);
            gd__print_text(p, "=");
        }
        gd__setting_print(p, &value);
    }
    gd__print_text(p, ")");
}

void gd__schedule_print(gd_print *p, const gd_schedule *s)
{
    const row *r = row_of(s);
    if (!r) return;
    if (s->warmup_steps != 0) {
        gd__print_text(p, "warmup(");
        gd__print_number(p, s->warmup_steps);
        gd__print_text(p, ", ");
    }
    print_plain(p, s, r);
    if (s->warmup_steps != 0 && s->warmup_start != 0) {
        gd__print_text(p, ", start=");
        gd__print_number(p, s->warmup_start);
    }
    if (s->warmup_steps != 0) gd__print_text(p, ")");
}

int gd_schedule_print(const gd_schedule *s, char *out, size_t size)
{
    if (!s || !row_of(s)) return 0;
    gd_print p = gd__print(out, size);
    gd__schedule_print(&p, s);
    return gd__print_end(&p);
}

/* ---- plateau ---- */

gd_plateau gd_plateau_start(double value, double factor, int64_t patience)
{
    return (gd_plateau){
        .value = value, .factor = factor, .threshold = 1e-4, .patience = patience, .best = INFINITY};
}

double gd_plateau_measure(gd_plateau *p, double loss)
{
    if (!p) return NAN;
    double bar = isinf(p->best) ? p->best : p->best - p->threshold * fabs(p->best);
    bool better = loss < bar;
    if (better) p->best = loss;
    p->bad = better ? 0 : p->bad + 1;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad > p->patience) {
        p->value = fmax(p->value * p->factor, p->lowest);
        p->cooling = p->cooldown;
        p->bad = 0;
    }
    return p->value;
}
