/* Pictures: round ticks, contours, and drawings that are well-formed and stay inside their frame. */
#include "plot/plot_internal.h"
#include "support/own_context.h"

#include <math.h>

/* ---- ticks ---- */

static void check_ticks(double low, double high, bool log, int wanted, const char *labels)
{
    gd_ticks t;
    char got[512] = "";
    gd__ticks(&t, low, high, log, wanted);
    for (int i = 0; i < t.count; i++) {
        if (i) strcat(got, " ");
        strcat(got, t.label[i]);
        assert_true(t.at[i] >= low - 1e-9 * fabs(low) && t.at[i] <= high + 1e-9 * fabs(high));
        /* a label says what stands there */
        double read = strtod(t.label[i], NULL);
        assert_true(fabs(read - t.at[i]) <= 1e-6 * (high - low) + 1e-9 * fabs(read));
    }
    if (strcmp(got, labels) != 0) fail_msg("%g..%g: %s, want %s", low, high, got, labels);
}

static void ticks_are_round_numbers(void **state)
{
    (void)state;
    check_ticks(0, 10, false, 5, "0 2 4 6 8 10");
    check_ticks(-1.3, 1.3, false, 6, "-1.0 -0.5 0.0 0.5 1.0");
    check_ticks(0.012, 0.058, false, 5, "0.02 0.03 0.04 0.05");
    check_ticks(0, 3e7, false, 6, "0 5e6 1e7 1.5e7 2e7 2.5e7 3e7");
    check_ticks(1e-9, 5e-9, false, 4, "1e-9 2e-9 3e-9 4e-9 5e-9");
    check_ticks(100.001, 100.004, false, 3, "100.001 100.002 100.003 100.004");
}

static void logarithmic_ticks_are_powers_of_ten(void **state)
{
    (void)state;
    check_ticks(1e-4, 200, true, 8, "0.0001 0.001 0.01 0.1 1 10 100");
    check_ticks(1e-20, 1e3, true, 6, "1e-18 1e-15 1e-12 1e-9 1e-6 0.001 1 1000");
    check_ticks(1, 60, true, 6, "1 2 5 10 20 50");
    check_ticks(1, 3, true, 4, "1.0 1.5 2.0 2.5 3.0");
}

static void ticks_of_any_range_are_few_and_inside(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int i = 0; i < 20000; i++) {
        double low = (random_unit(&random) - 0.5) * pow(10, (double)random_below(&random, 600) - 300);
        double high = low + fabs(low) * pow(10, (double)random_below(&random, 20) - 10);
        bool log = random_below(&random, 2) && low > 0;
        gd_ticks t;
        gd__ticks(&t, low, high, log, 1 + (int)random_below(&random, 12));
        assert_true(t.count <= GD_MAX_TICKS);
        for (int k = 0; k < t.count; k++) {
            assert_true(strlen(t.label[k]) < sizeof t.label[k]);
            if (k) assert_true(t.at[k] > t.at[k - 1]);
        }
    }
    gd_ticks t;
    gd__ticks(&t, 5, 5, false, 5);
    assert_int_equal(t.count, 1);
}

/* ---- contours ---- */

typedef struct curve {
    double area, worst;
    int lines, closed;
    double radius;
} curve;

static void measure(void *user, const double *xy, size_t points)
{
    curve *c = user;
    c->lines++;
    if (xy[0] == xy[2 * points - 2] && xy[1] == xy[2 * points - 1]) c->closed++;
    for (size_t i = 0; i + 1 < points; i++) {
        const double *a = xy + 2 * i, *b = a + 2;
        c->area += 0.5 * ((a[0] - 50) * (b[1] - 50) - (b[0] - 50) * (a[1] - 50));
        c->worst = fmax(c->worst, fabs(hypot(a[0] - 50, a[1] - 50) - c->radius));
    }
}

static void the_contour_of_a_bowl_is_a_circle(void **state)
{
    (void)state;
    static double z[101 * 101];
    for (int row = 0; row < 101; row++)
        for (int column = 0; column < 101; column++) z[row * 101 + column] = hypot(column - 50, row - 50);
    curve c = {.radius = 30.25};
    assert_int_equal(gd__contour(ctx, z, 101, 101, 30.25, measure, &c), GD_OK);
    assert_int_equal(c.lines, 1);
    assert_int_equal(c.closed, 1);
    assert_true(c.worst < 0.01);
    assert_true(fabs(fabs(c.area) / (M_PI * 30.25 * 30.25) - 1) < 0.001);
    /* cut by the edge of the grid: open pieces in the four corners */
    c = (curve){.radius = 60.5};
    assert_int_equal(gd__contour(ctx, z, 101, 101, 60.5, measure, &c), GD_OK);
    assert_int_equal(c.lines, 4);
    assert_int_equal(c.closed, 0);
    /* holes in the data, and levels that are nowhere */
    z[50 * 101 + 80] = NAN;
    c = (curve){.radius = 30.25};
    assert_int_equal(gd__contour(ctx, z, 101, 101, 30.25, measure, &c), GD_OK);
    assert_int_equal(c.closed, 0);
    c = (curve){0};
    assert_int_equal(gd__contour(ctx, z, 101, 101, 1e9, measure, &c), GD_OK);
    assert_int_equal(c.lines, 0);
}

static void saddles_are_joined_without_crossing(void **state)
{
    (void)state;
    static const double z[] = {1, 0, 0, 1};
    curve c = {0};
    assert_int_equal(gd__contour(ctx, z, 2, 2, 0.6, measure, &c), GD_OK);
    assert_int_equal(c.lines, 2);
    uint64_t random = 11;
    double noise[40 * 30];
    for (int i = 0; i < 40 * 30; i++) noise[i] = random_unit(&random);
    c = (curve){0};
    assert_int_equal(gd__contour(ctx, noise, 40, 30, 0.5, measure, &c), GD_OK);
    assert_true(c.lines > 10);
}

/* ---- a small reader of our SVG: elements nest, attributes are quoted, text is escaped ---- */

typedef struct seen {
    int paths, circles, texts;
    double x0, y0, x1, y1; /* of all that is drawn with a series ink */
} seen;

static void widen(seen *s, double x, double y)
{
    s->x0 = fmin(s->x0, x), s->x1 = fmax(s->x1, x);
    s->y0 = fmin(s->y0, y), s->y1 = fmax(s->y1, y);
}

static bool attribute(const char *tag, size_t length, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    for (size_t i = 1; i + n + 2 < length; i++) {
        if (tag[i - 1] != ' ' || memcmp(tag + i, name, n) != 0 || tag[i + n] != '=') continue;
        const char *begin = tag + i + n + 2, *end = strchr(begin, '"');
        assert_true(tag[i + n + 1] == '"' && end && (size_t)(end - tag) < length);
        snprintf(out, size, "%.*s", (int)(end - begin), begin);
        return true;
    }
    return false;
}

static void look_at_tag(const char *tag, size_t length, seen *s)
{
    static char value[1 << 20];
    if (!attribute(tag, length, "class", value, sizeof value)) return;
    int ink = -1;
    sscanf(strchr(value, 'i') ? strrchr(value, 'i') : "", "i%d", &ink);
    bool data = ink >= GD_INK_SERIES;
    if (!memcmp(tag, "path", 4)) {
        s->paths++;
        assert_true(attribute(tag, length, "d", value, sizeof value));
        assert_true(value[0] == 'M');
        for (char *at = value; data && *at && *at != 'Z';) {
            assert_true(*at == 'M' || *at == 'L');
            char *end;
            double x = strtod(at + 1, &end), y = strtod(end, &at);
            assert_true(isfinite(x) && isfinite(y));
            widen(s, x, y);
        }
    } else if (!memcmp(tag, "circle", 6)) {
        s->circles++;
        double at[2];
        assert_true(attribute(tag, length, "cx", value, sizeof value));
        at[0] = strtod(value, NULL);
        assert_true(attribute(tag, length, "cy", value, sizeof value));
        at[1] = strtod(value, NULL);
        widen(s, at[0], at[1]);
    } else if (!memcmp(tag, "text", 4)) {
        s->texts++;
    }
}

static seen look(const char *svg)
{
    seen s = {.x0 = INFINITY, .y0 = INFINITY, .x1 = -INFINITY, .y1 = -INFINITY};
    char open[8][16];
    int depth = 0;
    assert_true(!strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39));
    for (const char *at = svg; *at;) {
        if (*at != '<') {
            assert_true(*at != '&' || !strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) ||
                        !strncmp(at, "&gt;", 4));
            assert_true(depth > 0 || *at == '\n');
            at++;
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        char name[16] = "";
        if (at[1] == '/') {
            sscanf(at + 2, "%15[a-z]", name);
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else {
            sscanf(at + 1, "%15[a-z]", name);
            look_at_tag(at + 1, (size_t)(end - at), &s);
            if (end[-1] != '/') strcpy(open[depth++], name);
            assert_true(depth < 8);
        }
        at = end + 1;
    }
    assert_int_equal(depth, 0);
    return s;
}

static seen render(gd_plot *plot)
{
    gd_picture *picture = gd__plot_render(plot);
    assert_non_null(picture);
    gd_text svg = gd__text(ctx);
    assert_int_equal(gd__picture_svg(picture, false, &svg), GD_OK);
    seen s = look(svg.data);
    gd__text_free(&svg);
    gd_text png = gd__text(ctx);
    assert_int_equal(gd__picture_png(picture, false, 0.5, &png), GD_OK);
    assert_memory_equal(png.data, "\x89PNG\r\n\x1a\n", 8);
    gd__text_free(&png);
    gd__picture_free(picture);
    return s;
}

#define INSIDE(s) assert_true((s).x0 >= 15 && (s).y0 >= 15 && (s).x1 <= 785 && (s).y1 <= 470)

static void plots_are_well_formed_and_inside_their_frame(void **state)
{
    (void)state;
    double x[200], y[200], z[200];
    for (int i = 0; i < 200; i++) {
        x[i] = i;
        y[i] = exp(-i / 10.0);
        z[i] = y[i] + 0.1;
    }
    for (int log = 0; log < 2; log++) {
        gd_plot *plot = gd_plot_new(ctx, "a < b & c > \"d\"", "x", "y");
        gd_plot_log(plot, false, log);
        gd_plot_band(plot, "band", x, y, z, 200);
        gd_plot_line(plot, "line", x, y, 200);
        gd_plot_points(plot, "points", x, z, 200);
        gd_plot_path(plot, "path & <more>", x, z, 50);
        seen s = render(plot);
        assert_true(s.circles >= 200);
        assert_true(s.texts >= 10);
        INSIDE(s);
        gd_plot_free(plot);
    }
}

/* One run that reaches 0 does not make the axis linear: its zeros stand at the foot, below everything that is positive. */
static void zeros_stand_at_the_foot_of_a_logarithmic_axis(void **state)
{
    (void)state;
    const double x[] = {0, 1, 2, 3}, reaches[] = {1e4, 1, 1e-6, 0}, other[] = {1e4, 100, 10, 1e-6},
                 negative[] = {1, -1};
    double low = INFINITY, high = 0;
    assert_true(gd__spans_decades(reaches, 4, &low, &high));
    assert_true(gd__spans_decades(other, 4, &low, &high));
    assert_true(low == 1e-6 && high == 1e4);
    assert_false(gd__spans_decades(negative, 2, &low, &high));
    double lowest[2];
    for (int k = 0; k < 2; k++) {
        gd_plot *plot = gd_plot_new(ctx, "", "", "");
        gd_plot_log(plot, false, true);
        gd_plot_line(plot, NULL, x, other, 4);
        gd_plot_line(plot, NULL, x, k ? reaches : other, 4);
        gd_picture *picture = gd__plot_render(plot);
        gd_text svg = gd__text(ctx);
        assert_int_equal(gd__picture_svg(picture, false, &svg), GD_OK);
        seen s = look(svg.data);
        lowest[k] = s.y1;
        /* the x axis has 0.0; a plain 0 is the foot of the other */
        assert_int_equal(strstr(svg.data, ">0</text>") != NULL, k);
        assert_non_null(strstr(svg.data, ">100</text>"));
        gd__text_free(&svg);
        gd__picture_free(picture);
        gd_plot_free(plot);
    }
    /* further down than where 1e-6 stands with some space below it */
    assert_true(lowest[1] > lowest[0] + 5);
}

static void what_lies_beyond_given_limits_is_cut(void **state)
{
    (void)state;
    double x[] = {-10, 0, 1, 50, 2, 2}, y[] = {-10, 0.5, 0.5, 80, 1, -90};
    gd_plot *plot = gd_plot_new(ctx, "", "", "");
    gd_plot_limits(plot, -1, 3, 0, 1);
    gd_plot_line(plot, NULL, x, y, 6);
    gd_plot_points(plot, NULL, x, y, 6);
    gd_plot_band(plot, NULL, x, y, x, 6);
    seen s = render(plot);
    INSIDE(s);
    assert_int_equal(s.circles, 3);
    gd_plot_free(plot);
}

static void strange_data_is_drawn_as_far_as_it_goes(void **state)
{
    (void)state;
    static const double cases[][4] = {
        {1, 1, 1, 1},
        {NAN, NAN, NAN, NAN},
        {INFINITY, 1, 2, -INFINITY},
        {0, 0, 0, 0},
        {1e300, -1e300, 0, 1},
        {1e-310, 2e-310, 0, 1},
        {-1, -2, -3, -4},
        {1.7976931348623157e308, -1.7976931348623157e308, 0, 0},
        {1e15, 1e15 + 1, 0, 0},
        {5, NAN, 7, 8},
    };
    double x[] = {1, 2, 3, 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int log = 0; log < 2; log++) {
            gd_plot *plot = gd_plot_new(ctx, "t", "x", "y");
            gd_plot_log(plot, false, log);
            gd_plot_line(plot, "y", x, cases[i], 4);
            gd_plot_points(plot, "p", cases[i], x, 4);
            (void)render(plot);
            gd_plot_free(plot);
        }
    }
    gd_plot *plot = gd_plot_new(ctx, "", "", "");
    (void)render(plot);
    gd_plot_free(plot);
}

static void long_lines_are_thinned_without_losing_peaks(void **state)
{
    (void)state;
    size_t count = 100000;
    double *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
    for (size_t i = 0; i < count; i++) x[i] = (double)i, y[i] = i == 77777 ? 100 : (double)(i % 7);
    gd_plot *plot = gd_plot_new(ctx, "", "", "");
    gd_plot_line(plot, NULL, x, y, count);
    gd_picture *picture = gd__plot_render(plot);
    gd_text svg = gd__text(ctx);
    assert_int_equal(gd__picture_svg(picture, false, &svg), GD_OK);
    assert_true(svg.used < 100000);
    seen s = look(svg.data);
    assert_true(s.y0 < 60); /* the peak is near the top */
    gd__text_free(&svg);
    gd__picture_free(picture);
    gd_plot_free(plot);
    free(x);
    free(y);
}

static void long_texts_are_cut_and_strange_ones_harmless(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'w', sizeof text - 1);
    text[sizeof text - 1] = 0;
    double x[] = {1, 2}, y[] = {1, 2};
    gd_plot *plot = gd_plot_new(ctx, text, text, text);
    for (int i = 0; i < 12; i++) gd_plot_line(plot, text, x, y, 2);
    INSIDE(render(plot));
    gd_plot_free(plot);
    plot = gd_plot_new(ctx, "\xC3\xA9t\xC3\xA9 \xFF\xFE \x01 \xEF\xBF\xBE", "\xE2\x82", "]]>");
    gd_plot_line(plot, "\xF0\x9F\x98\x80", x, y, 2);
    (void)render(plot);
    gd_plot_free(plot);
}

/* ---- PNG ---- */

static uint32_t word(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void png_chunks_have_the_right_check_sums(void **state)
{
    (void)state;
    static const uint8_t rgb[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9};
    gd_text png = gd__text(ctx);
    assert_int_equal(gd__png_encode(&png, rgb, 2, 2), GD_OK);
    size_t at = 8;
    char kinds[64] = "";
    while (at < png.used) {
        uint32_t size = word(png.data + at), crc = 0xFFFFFFFFu;
        strncat(kinds, png.data + at + 4, 4);
        for (size_t i = at + 4; i < at + 8 + size; i++) {
            crc ^= (uint8_t)png.data[i];
            for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
        }
        assert_int_equal(word(png.data + at + 8 + size), ~crc);
        at += 12 + size;
    }
    assert_string_equal(kinds, "IHDRIDATIEND");
    assert_int_equal(word(png.data + 16), 2);
    assert_int_equal(word(png.data + 20), 2);
    gd__text_free(&png);
}

/* ---- many points, bars, panels, PDF ---- */

static gd_text svg_of(gd_plot *plot, bool dark)
{
    gd_picture *picture = gd__plot_render(plot);
    gd_text svg = gd__text(ctx);
    assert_non_null(picture);
    assert_int_equal(gd__picture_svg(picture, dark, &svg), GD_OK);
    gd__picture_free(picture);
    return svg;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) count++;
    return count;
}

static void many_points_are_a_density(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    double *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    uint64_t random = 3;
    for (int i = 0; i < COUNT; i++) {
        x[i] = random_unit(&random);
        y[i] = x[i] + random_unit(&random) * random_unit(&random);
    }
    gd_plot *plot = gd_plot_new(ctx, "", "", "");
    gd_plot_points(plot, NULL, x, y, COUNT);
    gd_text svg = svg_of(plot, false);
    assert_null(strstr(svg.data, "<circle"));
    for (const char *at = svg.data; (at = strstr(at, "h4v4h-4z"));) { /* each cell, from its corner on */
        double left, top;
        while (*at != 'M') at--;
        assert_int_equal(sscanf(at, "M%lf %lf", &left, &top), 2);
        assert_true(left >= 15 && left + 4 <= 785 && top >= 15 && top + 4 <= 490);
        at = strstr(at, "h4v4h-4z") + 8;
    }
    if (svg.used > 400000) fail_msg("%zu bytes", svg.used);
    /* shades from pale to full */
    assert_true(count_of(svg.data, "fill-opacity") >= 4);
    const char *full = strstr(svg.data, "<path class=\"a i4\" d=\"M");
    assert_non_null(full);
    gd__text_free(&svg);
    gd_plot_free(plot);
    /* 20000 are drawn one by one */
    plot = gd_plot_new(ctx, "", "", "");
    gd_plot_points(plot, NULL, x, y, 20000);
    assert_int_equal(render(plot).circles, 20000);
    gd_plot_free(plot);
    free(x);
    free(y);
}

static void errors_have_bars_and_panels_lie_below(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 4, 2}, half[] = {0.5, 6, 0.1};
    gd_plot *plot = gd_plot_new(ctx, "t", "", "y"), *panel = gd_plot_new(ctx, "", "x", "left");
    gd_plot_errors(plot, "data", x, y, NULL, half, 3);
    gd_plot_points(panel, NULL, x, half, 3);
    gd_plot_below(plot, panel);
    gd_text svg = svg_of(plot, false);
    seen s = look(svg.data);
    assert_int_equal(s.circles, 7); /* three, three below, one in the legend */
    assert_int_equal(count_of(svg.data, "stroke-width=\"1.2\""), 3);
    assert_non_null(strstr(svg.data, "height=\"650\""));
    assert_true(s.y1 > 500 && s.y1 <= 640 && s.x0 >= 15 && s.x1 <= 785);
    assert_non_null(strstr(svg.data, ">-2</text>")); /* 4 - 6 is on the axis */
    gd__text_free(&svg);
    gd_plot_free(plot);
    /* on a logarithmic axis a bar that goes below 0 reaches the foot */
    plot = gd_plot_new(ctx, "", "", "");
    gd_plot_log(plot, false, true);
    gd_plot_errors(plot, NULL, x, y, NULL, half, 3);
    (void)render(plot);
    gd_plot_free(plot);
}

/* Lines of width 1.2 that go from left to right. */
static int bars_across(const char *svg)
{
    int across = 0;
    double x0, y0, x1, y1;
    for (const char *at = svg; (at = strstr(at, "<path")); at++) {
        const char *end = strchr(at, '>'), *line = strstr(at, " d=\"M"),
                   *width = strstr(at, "stroke-width=\"1.2\"");
        if (!line || !width || line > end || width > end) continue;
        if (sscanf(line + 5, "%lf %lfL%lf %lf", &x0, &y0, &x1, &y1) == 4) across += y0 == y1 && x1 > x0;
    }
    return across;
}

static void errors_in_x_have_bars_that_lie(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 4, 2}, across[] = {0.5, 6, 0.1}, up[] = {0.5, 0.5, NAN};
    gd_plot *plot = gd_plot_new(ctx, "t", "x", "y");
    gd_plot_errors(plot, "data", x, y, across, up, 3);
    gd_text svg = svg_of(plot, false);
    assert_int_equal(count_of(svg.data, "stroke-width=\"1.2\""), 5); /* one upright bar is not known */
    assert_int_equal(bars_across(svg.data), 3);
    assert_non_null(strstr(svg.data, ">-4</text>")); /* 2 - 6 is on the axis */
    gd__text_free(&svg);
    gd_plot_free(plot);
    /* on a logarithmic axis a bar that goes below 0 reaches its left end */
    plot = gd_plot_new(ctx, "", "", "");
    gd_plot_log(plot, true, false);
    gd_plot_errors(plot, NULL, x, y, across, NULL, 3);
    svg = svg_of(plot, false);
    assert_int_equal(bars_across(svg.data), 3);
    gd__text_free(&svg);
    gd_plot_free(plot);
}

static void a_dark_svg_is_dark_for_every_reader(void **state)
{
    (void)state;
    const double x[] = {1, 2}, y[] = {1, 2};
    gd_plot *plot = gd_plot_new(ctx, "t", "x", "y");
    gd_plot_line(plot, "y", x, y, 2);
    gd_text light = svg_of(plot, false), dark = svg_of(plot, true);
    assert_non_null(strstr(light.data, "prefers-color-scheme"));
    assert_null(strstr(dark.data, "prefers-color-scheme"));
    assert_non_null(strstr(dark.data, ".a.i0{fill:#16181d}"));
    gd__text_free(&light);
    gd__text_free(&dark);
    gd_plot_free(plot);
}

/* The table at the end says where each object begins, and the stream is as long as it says. */
static void a_pdf_has_its_objects_where_it_says(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 4, 2}, half[] = {0.5, 1, 0.1};
    gd_plot *plot = gd_plot_new(ctx, "a (b) \\ c", "x", "y");
    gd_plot_band(plot, "band", x, y, x, 3);
    gd_plot_errors(plot, "data", x, y, NULL, half, 3);
    gd_plot_path(plot, "path", x, y, 3);
    gd_picture *picture = gd__plot_render(plot);
    gd_text pdf = gd__text(ctx);
    gd__text_add(&pdf, "in front");
    assert_int_equal(gd__picture_pdf(picture, true, &pdf), GD_OK);
    const char *data = pdf.data + 8, *table = strstr(data, "xref\n");
    size_t size = pdf.used - 8;
    assert_memory_equal(data, "%PDF-1.", 7);
    assert_memory_equal(data + size - 6, "%%EOF\n", 6);
    int count = 0;
    assert_int_equal(sscanf(table, "xref\n0 %d", &count), 1);
    assert_int_equal(count, 5);
    for (int k = 1; k < count; k++) {
        const char *line = strstr(table, "0000000000 65535 f \n") + 20 * k;
        char want[16];
        snprintf(want, sizeof want, "%d 0 obj\n", k);
        assert_memory_equal(data + strtol(line, NULL, 10), want, strlen(want));
    }
    assert_int_equal(strtol(strstr(data, "startxref\n") + 10, NULL, 10), table - data);
    long length = strtol(strstr(data, "/Length ") + 8, NULL, 10);
    assert_memory_equal(strstr(data, "stream\n") + 7 + length, "endstream", 9);
    for (const char *c = data; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c < 127));
    gd__text_free(&pdf);
    gd__picture_free(picture);
    gd_plot_free(plot);
}

static void series_without_numbers_are_refused(void **state)
{
    (void)state;
    const double one[] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) {
        gd_plot *plot = gd_plot_new(ctx, NULL, NULL, NULL);
        if (i == 0) gd_plot_line(plot, "a", one, NULL, 4);
        if (i == 1) gd_plot_band(plot, "a", one, one, NULL, 4);
        if (i == 2) gd_plot_contours(plot, 0, 1, 2, 0, 1, 2, NULL);
        if (i == 3) gd_plot_contours(plot, 0, 1, 4, 0, 1, 1, one);
        assert_int_equal(gd_plot_save(plot, "none.svg", false), GD_ARGUMENT);
        assert_error(ctx, GD_ARGUMENT,
                     i < 2 ? "plot: a series without numbers"
                           : "plot: contours take a grid of at least 2 x 2 numbers");
        gd_plot_free(plot);
    }
}

static void files_are_written_by_their_ending(void **state)
{
    (void)state;
    double x[] = {1, 2}, y[] = {1, 2};
    gd_plot *plot = gd_plot_new(ctx, "t", "x", "y");
    gd_plot_line(plot, "y", x, y, 2);
    assert_int_equal(gd_plot_save(plot, "/tmp/gradus_plot.gif", false), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "/tmp/gradus_plot.gif: a picture ends in .svg, .png or .pdf");
    assert_int_equal(gd_plot_save(plot, "/nowhere/plot.svg", false), GD_IO);
    gd_clear_error(ctx);
    char path[64];
    snprintf(path, sizeof path, "/tmp/gradus_plot_%ld.svg", (long)random_bits(&(uint64_t){(uintptr_t)plot}));
    assert_int_equal(gd_plot_save(plot, path, false), GD_OK);
    assert_int_equal(remove(path), 0);
    gd_plot_free(plot);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    double x[] = {1, 2, 3}, y[] = {1, 4, 2}, z[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *own = context(&m, 1, NULL);
        m.fail_at = m.requests + k;
        gd_plot *plot = gd_plot_new(own, "t", "x", "y");
        gd_plot_contours(plot, 0, 4, 3, 0, 4, 3, z);
        gd_plot_line(plot, "l", x, y, 3);
        gd_plot_path(plot, "p", x, y, 3);
        gd_plot_errors(plot, "e", x, y, y, x, 3);
        gd_plot *panel = gd_plot_new(own, "", "x", "left");
        gd_plot_points(panel, NULL, x, y, 3);
        if (panel) gd_plot_below(plot, panel);
        gd_picture *picture = panel ? gd__plot_render(plot) : NULL;
        gd_text out = gd__text(own);
        gd_status status = picture ? gd__picture_svg(picture, false, &out) : GD_NOMEM;
        if (!status) status = gd__picture_png(picture, true, 0.25, &out);
        if (!status) status = gd__picture_pdf(picture, true, &out);
        bool done = !m.failed;
        assert_true(done == (status == GD_OK));
        if (!done) assert_int_equal(gd_error(own), GD_NOMEM);
        gd__text_free(&out);
        gd__picture_free(picture);
        gd_plot_free(plot);
        end_context(own, &m);
        if (done) break;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ticks_are_round_numbers),
        TEST(logarithmic_ticks_are_powers_of_ten),
        TEST(ticks_of_any_range_are_few_and_inside),
        TEST(the_contour_of_a_bowl_is_a_circle),
        TEST(saddles_are_joined_without_crossing),
        TEST(plots_are_well_formed_and_inside_their_frame),
        TEST(zeros_stand_at_the_foot_of_a_logarithmic_axis),
        TEST(what_lies_beyond_given_limits_is_cut),
        TEST(strange_data_is_drawn_as_far_as_it_goes),
        TEST(long_lines_are_thinned_without_losing_peaks),
        TEST(long_texts_are_cut_and_strange_ones_harmless),
        TEST(png_chunks_have_the_right_check_sums),
        TEST(many_points_are_a_density),
        TEST(errors_have_bars_and_panels_lie_below),
        TEST(errors_in_x_have_bars_that_lie),
        TEST(a_dark_svg_is_dark_for_every_reader),
        TEST(a_pdf_has_its_objects_where_it_says),
        TEST(series_without_numbers_are_refused),
        TEST(files_are_written_by_their_ending),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
