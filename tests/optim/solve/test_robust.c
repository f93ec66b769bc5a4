/* gd_least_squares with losses other than squares.
 *
 * References: SciPy 1.17 (least_squares with loss and f_scale = constant times scale, then Newton steps on the loss) and NumPy for
 * the scale and the covariance of an M-estimator, written from the formulas; statsmodels 0.15 (RLM) for the line. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define ROWS 24

static const double times[ROWS] = {0,     0.261, 0.522, 0.783, 1.043, 1.304, 1.565, 1.826,
                                   2.087, 2.348, 2.609, 2.87,  3.13,  3.391, 3.652, 3.913,
                                   4.174, 4.435, 4.696, 4.957, 5.217, 5.478, 5.739, 6},
                    values[ROWS] = {4.4358, 3.7261,  3.2558, 5.3458, 2.5183, 2.1144, 1.7933, 1.5514,
                                    1.488,  -0.2961, 1.1659, 0.9378, 0.8706, 1.0005, 0.8266, 0.6199,
                                    0.7087, 3.6863,  0.5991, 0.5854, 1.4467, 0.6307, 0.567,  0.5128};

typedef struct decay {
    gd_tensor *p[3], *t, *y;
    bool line;
} decay;

static gd_tensor *residuals(void *user)
{
    decay *d = user;
    gd_tensor *curve = d->line ? gd_mul(d->p[1], d->t)
                               : gd_mul(d->p[1], gd_exp(gd_neg(gd_mul(d->p[2], d->t))));
    return gd_sub(gd_add(d->p[0], curve), d->y);
}

static decay open_decay(gd_ctx *ctx, bool line, int64_t rows, const double *t, const double *y)
{
    decay d = {.line = line};
    const double start[] = {0, line ? 0 : 3, 1};
    /* GD_TEST_DEVICE=gpu: there, or as plain/robust on the device of backends/plain */
    const char *name = getenv("GD_TEST_DEVICE");
    gd_device *device = gd_device_get(ctx, name ? name : "cpu");
    for (int i = 0; i < 3; i++)
        d.p[i] = gd_require_grad(gd_to_device(gd_scalar(ctx, GD_F64, start[i]), device));
    d.t = gd_to_device(gd_from_f64(ctx, GD_F64, 1, &rows, t), device);
    d.y = gd_to_device(gd_from_f64(ctx, GD_F64, 1, &rows, y), device);
    return d;
}

static void near(const char *what, double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want))) fail_msg("%s: %.15g, want %.15g", what, value, want);
}

#define SCALE 0.091373889886422

/* c, a, b and their errors. */
static void values_errors_and_scale_are_those_of_an_m_estimator(void **state)
{
    (void)state;
    static const struct {
        gd_lsq_loss loss;
        double scale, x[3], error[3];
    } cases[] = {
        {GD_LSQ_HUBER,
         0,
         {0.493638844107, 3.95900406639, 0.691554808293},
         {0.0446646271553, 0.0593363746551, 0.0250667984639}},
        {GD_LSQ_HUBER,
         0.1,
         {0.495856350639, 3.95953808327, 0.692793539279},
         {0.0464187182792, 0.061030104596, 0.0263543342762}},
        {GD_LSQ_SOFT_L1,
         0,
         {0.497674172657, 3.95587140389, 0.693379275877},
         {0.0461142362396, 0.0605810403719, 0.0283181349144}},
        {GD_LSQ_SOFT_L1,
         0.1,
         {0.500095901922, 3.95598793993, 0.694556081953},
         {0.0482518340162, 0.0634657892785, 0.0293072535784}},
        {GD_LSQ_CAUCHY,
         0,
         {0.472984702642, 3.95706598246, 0.68268822096},
         {0.0292758425308, 0.0393212988182, 0.0191949150822}},
        {GD_LSQ_CAUCHY,
         0.1,
         {0.474885832352, 3.95641910769, 0.68358500468},
         {0.0302407960147, 0.0401014473197, 0.0193988151559}},
        {GD_LSQ_TUKEY,
         0,
         {0.459965436638, 3.96308621229, 0.675989252507},
         {0.0274409624697, 0.0381730479854, 0.0180737002923}},
        {GD_LSQ_TUKEY,
         0.1,
         {0.459861798075, 3.96314521821, 0.675844299247},
         {0.0274960049667, 0.0382457291089, 0.0179770089209}},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        decay d = open_decay(ctx, false, ROWS, times, values);
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        double error[3];
        o.loss = cases[i].loss;
        o.loss_scale = cases[i].scale;
        assert_int_equal(gd_least_squares(d.p, 3, residuals, &d, &o, &r), GD_OK);
        assert_true(r.solve.converged);
        const char *name = gd_lsq_loss_name(o.loss);
        near(name, r.scale, o.loss_scale > 0 ? o.loss_scale : SCALE, 1e-7);
        near(name, r.sigma, r.scale, 0);
        assert_int_equal(gd_read_f64(r.standard_errors, error, 3), GD_OK);
        for (int k = 0; k < 3; k++) {
            near(name, gd_item(d.p[k]), cases[i].x[k], 1e-7);
            near(name, error[k], cases[i].error[k], 1e-6);
        }
        gd_lsq_result_clear(&r);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

static void a_line_is_that_of_statsmodels(void **state)
{
    (void)state;
    static const double y[] = {1.041, 1.583, 1.836, 2.474, 5.902, 3.483,
                               3.871, 4.502, 4.996, 5.47,  3.895, 6.46};
    static const struct {
        gd_lsq_loss loss;
        double scale, a, b;
    } cases[] = {{GD_LSQ_HUBER, 0.053089362696691636, 1.037851809956631, 0.49007670760665567},
                 {GD_LSQ_TUKEY, 0.04454060126087615, 1.0341100374872734, 0.4923831283927873}};
    double x[12];
    for (int i = 0; i < 12; i++) x[i] = i;
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        decay d = open_decay(ctx, true, 12, x, y);
        gd_lsq_options o = gd_lsq_defaults();
        o.loss = cases[i].loss;
        o.loss_scale = cases[i].scale;
        assert_int_equal(gd_least_squares(d.p, 2, residuals, &d, &o, NULL), GD_OK);
        near("a", gd_item(d.p[0]), cases[i].a, 1e-12);
        near("b", gd_item(d.p[1]), cases[i].b, 1e-12);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* psi(z) = z weight(z): for huber and tukey by hand. */
static void weights_fall_from_one(void **state)
{
    (void)state;
    for (int loss = 0; loss < GD_LSQ_LOSS_COUNT; loss++) {
        double last = 1;
        assert_true(gd_lsq_loss_weight((gd_lsq_loss)loss, 0) == 1);
        for (double z = 0; z < 8; z += 0.25) {
            double weight = gd_lsq_loss_weight((gd_lsq_loss)loss, -z);
            assert_true(weight <= last && weight >= 0);
            last = weight;
        }
        assert_true(loss == GD_LSQ_SQUARES ? last == 1 : last < 0.2);
    }
    near("huber", gd_lsq_loss_weight(GD_LSQ_HUBER, 2.69), 0.5, 1e-15);
    near("tukey", gd_lsq_loss_weight(GD_LSQ_TUKEY, 4.685 / 2), 0.5625, 1e-15);
    assert_true(gd_lsq_loss_weight(GD_LSQ_TUKEY, 5) == 0);
    assert_true(isnan(gd_lsq_loss_weight(GD_LSQ_LOSS_COUNT, 1)));
    assert_string_equal(gd_lsq_loss_name(GD_LSQ_SOFT_L1), "soft_l1");
}

/* With b held at 0.5 by its bound the errors are those of a straight line in exp(-t/2), which has no second derivatives: compare
 * with the fit where b is a number. */
static void a_bound_that_holds_leaves_the_errors_of_the_others(void **state)
{
    (void)state;
    double errors[2][3], x[2][2];
    for (int held = 0; held < 2; held++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        decay d = open_decay(ctx, false, ROWS, times, values);
        const double low[] = {-INFINITY, -INFINITY, -INFINITY}, high[] = {INFINITY, INFINITY, 0.5};
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        o.loss = GD_LSQ_CAUCHY;
        o.loss_scale = 0.1;
        if (held) o.low = low, o.high = high;
        if (!held) {
            gd_release(d.p[2]);
            d.p[2] = gd_to_device(gd_scalar(ctx, GD_F64, 0.5), gd_tensor_device(d.t));
        }
        assert_int_equal(gd_least_squares(d.p, held ? 3 : 2, residuals, &d, &o, &r), GD_OK);
        assert_int_equal(gd_read_f64(r.standard_errors, errors[held], held ? 3 : 2), GD_OK);
        for (int k = 0; k < 2; k++) x[held][k] = gd_item(d.p[k]);
        gd_lsq_result_clear(&r);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
    assert_true(isnan(errors[1][2]));
    for (int k = 0; k < 2; k++) {
        near("value", x[1][k], x[0][k], 1e-9);
        near("error", errors[1][k], errors[0][k], 1e-7);
    }
}

static void what_has_no_scale_is_said(void **state)
{
    (void)state;
    static const double t[] = {0, 1, 2, 3, 4, 5, 6, 7}, y[] = {0, 1, 2, 3, 9, 5, 6, 7};
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    decay d = open_decay(ctx, true, 8, t, y);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    double interval[2];
    o.loss = GD_LSQ_HUBER;
    assert_int_equal(gd_least_squares(d.p, 2, residuals, &d, &o, &r), GD_OK); /* a Huber fit is not exact */
    assert_int_equal(gd_lsq_profile(d.p, 2, residuals, &d, &o, &r, 0, 2, interval, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "profile: intervals are those of squares, not of huber");
    gd_lsq_result_clear(&r);
    d = open_decay(ctx, true, 2, t, y);
    assert_int_equal(gd_least_squares(d.p, 2, residuals, &d, &o, &r), GD_VALUE);
    assert_error(ctx, GD_VALUE, "least squares: 2 residuals for 2 parameters say nothing of their scale");
    d = open_decay(ctx, true, 8, t, t);
    assert_int_equal(gd_least_squares(d.p, 2, residuals, &d, &o, &r), GD_VALUE);
    assert_error(ctx, GD_VALUE, "least squares: half of the residuals are 0: the loss huber wants a scale");
    o.loss = (gd_lsq_loss)77;
    assert_int_equal(gd_least_squares(d.p, 2, residuals, &d, &o, &r), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: no such loss, or a scale that is none");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (getenv("GD_TEST_DEVICE")) skip(); /* its plugin is loaded anew for each context */
    bool failed = true;
    for (int64_t k = 1; failed; k += k < 30 ? 1 : 83) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        gd_scope_begin(ctx);
        decay d = open_decay(ctx, false, ROWS, times, values);
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        o.loss = GD_LSQ_TUKEY;
        o.loss_scale = 0.1;
        m.fail_at = m.requests + k;
        gd_status status = gd_least_squares(d.p, 3, residuals, &d, &o, &r);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_lsq_result_clear(&r);
        gd_clear_error(ctx);
        gd_scope_end(ctx);
        end_context(ctx, &m);
    }
}

/* ---- a small bundle adjustment ---- */

/* Cameras of a plane see points along a line each: u = (cos a X - sin a Y + t) / (sin a X + cos a Y + d).  Parameters: a, t, d of
 * every camera, X and Y of every point; the first camera and the distance of the second are known. */
#define CAMERAS 6
#define POINTS  30
#define SIGHTS  (CAMERAS * POINTS)

typedef struct scene {
    gd_tensor *camera, *point; /* [cameras, 3], [points, 2] */
    gd_tensor *u;
    double low[CAMERAS * 3 + POINTS * 2], high[CAMERAS * 3 + POINTS * 2];
    int64_t evals;
} scene;

static gd_tensor *column(gd_tensor *t, int64_t i) { return gd_index(t, "1", i); }

static gd_tensor *sights(void *user)
{
    scene *s = user;
    s->evals++;
    gd_tensor *a = gd_unsqueeze(column(s->camera, 0), 1, NULL),
              *t = gd_unsqueeze(column(s->camera, 1), 1, NULL),
              *d = gd_unsqueeze(column(s->camera, 2), 1, NULL);
    gd_tensor *x = gd_unsqueeze(column(s->point, 0), 0, NULL),
              *y = gd_unsqueeze(column(s->point, 1), 0, NULL);
    gd_tensor *across = gd_add(gd_sub(gd_mul(gd_cos(a), x), gd_mul(gd_sin(a), y)), t);
    gd_tensor *along = gd_add(gd_add(gd_mul(gd_sin(a), x), gd_mul(gd_cos(a), y)), d);
    return gd_sub(gd_div(across, along), s->u);
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}
static double normal(uint64_t *seed)
{
    double u = uniform(seed);
    return sqrt(-2 * log(1 - u)) * cos(2 * acos(-1) * uniform(seed));
}

/* moved: the parameters do not start at the truth. */
static scene open_scene(gd_ctx *ctx, uint64_t seed, double far, bool moved)
{
    scene s = {.evals = 0};
    double camera[CAMERAS][3], point[POINTS][2], u[SIGHTS];
    for (int c = 0; c < CAMERAS; c++)
        camera[c][0] = 0.25 * (c - 2.5), camera[c][1] = 0.3 * normal(&seed),
        camera[c][2] = 5 + 0.3 * normal(&seed);
    for (int p = 0; p < POINTS; p++)
        point[p][0] = 4 * uniform(&seed) - 2, point[p][1] = 4 * uniform(&seed) - 2;
    for (int c = 0; c < CAMERAS; c++)
        for (int p = 0; p < POINTS; p++) {
            double a = camera[c][0], x = point[p][0], y = point[p][1];
            u[c * POINTS + p] = (cos(a) * x - sin(a) * y + camera[c][1]) /
                                    (sin(a) * x + cos(a) * y + camera[c][2]) +
                                0.002 * normal(&seed);
            if (uniform(&seed) < 0.04) u[c * POINTS + p] += far * normal(&seed);
        }
    for (int i = 0; i < COUNT_OF(s.low); i++) s.low[i] = -INFINITY, s.high[i] = INFINITY;
    for (int k = 0; k < 3; k++) s.low[k] = s.high[k] = camera[0][k];
    s.low[5] = s.high[5] = camera[1][2];
    for (int c = 0; c < CAMERAS && moved; c++)
        for (int k = 0; k < 3; k++)
            if (c > 1 || (c == 1 && k < 2)) camera[c][k] += 0.02 * normal(&seed);
    for (int p = 0; p < POINTS && moved; p++)
        for (int k = 0; k < 2; k++) point[p][k] += 0.1 * normal(&seed);
    s.camera = gd_require_grad(gd_from_f64(ctx, GD_F64, 2, (int64_t[]){CAMERAS, 3}, camera[0]));
    s.point = gd_require_grad(gd_from_f64(ctx, GD_F64, 2, (int64_t[]){POINTS, 2}, point[0]));
    s.u = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){CAMERAS, POINTS}, u);
    return s;
}

#define SCENE(s) \
    (gd_tensor *[]) { (s).camera, (s).point }

/* The squares fit of these sights lies so far off that its scale leads to a loss of 0.032 at the scale 0.0086: a quarter of what the
 * cameras see is an outlier there. */
static void a_scale_does_not_stay_where_outliers_have_pulled_the_squares(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r, known;
    scene s = open_scene(ctx, 13, 0.3, true);
    o.loss = GD_LSQ_HUBER;
    o.covariance = false;
    o.low = s.low, o.high = s.high;
    assert_int_equal(gd_least_squares(SCENE(s), 2, sights, &s, &o, &r), GD_OK);
    assert_true(r.solve.converged && r.scale < 0.004);
    assert_int_equal(r.solve.evals, s.evals);
    /* from where the cameras are, which nobody knows, with that scale */
    s = open_scene(ctx, 13, 0.3, false);
    o.loss_scale = r.scale;
    assert_int_equal(gd_least_squares(SCENE(s), 2, sights, &s, &o, &known), GD_OK);
    near("loss", r.solve.loss, known.solve.loss, 1e-8);
    gd_lsq_result_clear(&r);
    gd_lsq_result_clear(&known);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void two_minima_are_said(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    scene s = open_scene(ctx, 8, 0.3, true);
    o.loss = GD_LSQ_HUBER;
    o.covariance = false;
    o.low = s.low, o.high = s.high;
    assert_int_equal(gd_least_squares(SCENE(s), 2, sights, &s, &o, &r), GD_OK);
    assert_int_equal(gd_warning_count(ctx), 1);
    assert_non_null(strstr(gd_warning_text(ctx), "the loss huber has two minima"));
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

typedef struct seen {
    int64_t step, evals;
    double seconds;
    int stop_at, calls;
} seen;

static bool count_up(void *user, const gd_progress *progress)
{
    seen *s = user;
    assert_true(progress->step > s->step && progress->evals > s->evals && progress->seconds >= s->seconds);
    *s = (seen){progress->step, progress->evals, progress->seconds, s->stop_at, s->calls + 1};
    return s->calls != s->stop_at;
}

/* Scales, and the Huber fit that tukey starts from, are fits of their own: limits hold for all of them together, and the best point
 * found is there with its covariance. */
static void limits_hold_for_the_whole_call(void **state)
{
    (void)state;
    static const struct {
        int64_t steps, evals;
        double seconds, scale;
        int calls;
        gd_stop want;
    } cases[] = {{1, 0, 0, 0, 0, GD_STOP_MAX_STEPS},   {3, 0, 0, 0, 0, GD_STOP_MAX_STEPS},
                 {3, 0, 0, 0.1, 0, GD_STOP_MAX_STEPS}, {9, 0, 0, 0, 0, GD_STOP_MAX_STEPS},
                 {0, 7, 0, 0, 0, GD_STOP_MAX_EVALS},   {0, 15, 0, 0, 0, GD_STOP_MAX_EVALS},
                 {0, 0, 1e-9, 0, 0, GD_STOP_TIME},     {0, 0, 1e-9, 0.1, 0, GD_STOP_TIME},
                 {0, 0, 0, 0, 4, GD_STOP_CALLER},      {0, 0, 0, 0, 8, GD_STOP_CALLER},
                 {1000, 1000, 60, 0, 0, GD_STOP_COUNT}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        decay d = open_decay(ctx, false, ROWS, times, values);
        seen s = {.stop_at = cases[i].calls};
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        double begun = gd_item(gd_sum(gd_square(residuals(&d)), NULL, false));
        o.loss = GD_LSQ_TUKEY;
        o.loss_scale = cases[i].scale;
        o.solve.max_steps = cases[i].steps;
        o.solve.max_evals = cases[i].evals;
        o.solve.max_seconds = cases[i].seconds;
        o.solve.callback = count_up;
        o.solve.callback_user = &s;
        assert_int_equal(gd_least_squares(d.p, 3, residuals, &d, &o, &r), GD_OK);
        if (cases[i].want == GD_STOP_COUNT)
            assert_true(r.solve.converged);
        else
            assert_int_equal(r.solve.reason, cases[i].want);
        assert_true(!cases[i].steps || r.solve.steps <= cases[i].steps);
        /* what is said of the end takes an evaluation or two */
        assert_true(!cases[i].evals || r.solve.evals <= cases[i].evals + 2);
        assert_true(!cases[i].calls || s.calls == cases[i].calls);
        assert_true(r.scale > 0 && r.rss <= begun && r.standard_errors);
        gd_lsq_result_clear(&r);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_errors_and_scale_are_those_of_an_m_estimator),
        cmocka_unit_test(a_line_is_that_of_statsmodels),
        cmocka_unit_test(weights_fall_from_one),
        cmocka_unit_test(a_bound_that_holds_leaves_the_errors_of_the_others),
        cmocka_unit_test(what_has_no_scale_is_said),
        cmocka_unit_test(a_scale_does_not_stay_where_outliers_have_pulled_the_squares),
        cmocka_unit_test(two_minima_are_said),
        cmocka_unit_test(limits_hold_for_the_whole_call),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
