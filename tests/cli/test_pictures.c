/* Pictures of fits: letters of all kinds, smooth curves, legends, margins of panels. */
#include "plot/picture.h"
#include "plot/letters.h"
#include "program.h"

/* ---- letters ---- */

typedef struct drawn {
    int strokes;
    double low[2], high[2], sum;
} drawn;

static void see_stroke(void *user, const double *xy, size_t points)
{
    drawn *d = user;
    assert_true(points > 0);
    d->strokes++;
    for (size_t i = 0; i < 2 * points; i++) {
        assert_true(isfinite(xy[i]));
        d->low[i % 2] = fmin(d->low[i % 2], xy[i]);
        d->high[i % 2] = fmax(d->high[i % 2], xy[i]);
        d->sum += xy[i] * (double)(1 + i % 7);
    }
}

static drawn draw(const char *utf8, double *width)
{
    drawn d = {.low = {INFINITY, INFINITY}, .high = {-INFINITY, -INFINITY}};
    *width = gd__font_strokes(utf8, see_stroke, &d);
    return d;
}

static void put_code(char text[8], unsigned code)
{
    if (code < 0x80)
        snprintf(text, 8, "%c", (char)code);
    else if (code < 0x800)
        snprintf(text, 8, "%c%c", (char)(0xC0 | code >> 6), (char)(0x80 | (code & 63)));
    else
        snprintf(text, 8, "%c%c%c", (char)(0xE0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
                 (char)(0x80 | (code & 63)));
}

/* Strokes are inside the letter's own width, from the depth of tails to the height of capitals with accents. */
static void every_letter_of_the_common_scripts_has_strokes(void **state)
{
    (void)state;
    static const unsigned range[][2] = {
        {0x21, 0x7E},     {0xA1, 0xAC},     {0xAE, 0x17F},    {0x386, 0x386},   {0x388, 0x38A},
        {0x38C, 0x38C},   {0x38E, 0x3A1},   {0x3A3, 0x3CE},   {0x400, 0x45F},   {0x490, 0x491},
        {0x1EA0, 0x1EF9}, {0x2010, 0x2011}, {0x2013, 0x2014}, {0x2018, 0x201A}, {0x201C, 0x201E},
        {0x2020, 0x2022}, {0x2026, 0x2026}, {0x2030, 0x2030}, {0x2032, 0x2033}, {0x2039, 0x203A},
        {0x2070, 0x2071}, {0x2074, 0x208E}, {0x20AC, 0x20AC}, {0x2122, 0x2122}, {0x2190, 0x2194},
        {0x2202, 0x2202}, {0x2206, 0x2207}, {0x2211, 0x2212}, {0x221A, 0x221A}, {0x221D, 0x221E},
        {0x222B, 0x222B}, {0x2248, 0x2248}, {0x2260, 0x2261}, {0x2264, 0x2265}};
    for (int k = 0; k < COUNT_OF(range); k++)
        for (unsigned code = range[k][0]; code <= range[k][1]; code++) {
            char text[8];
            double width;
            put_code(text, code);
            if (gd__letter_code(text, strlen(text)) != code || !gd__font_knows(text, strlen(text)))
                fail_msg("U+%04X %s is not known", code, text);
            drawn d = draw(text, &width);
            if (!d.strokes || d.low[0] < -0.06 || d.high[0] > width + 0.35 || d.low[1] < -0.3 ||
                d.high[1] > 1.4)
                fail_msg("U+%04X %s: %d strokes, %g..%g of %g, %g..%g", code, text, d.strokes, d.low[0],
                         d.high[0], width, d.low[1], d.high[1]);
        }
}

static void accents_are_seen(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"À", "A"}, {"é", "e"},   {"ü", "u"}, {"ğ", "g"}, {"ł", "l"},
                                           {"ç", "c"}, {"Ω", "O"},   {"й", "и"}, {"Ж", "X"}, {"ấ", "â"},
                                           {"²", "2"}, {"½", "1/2"}, {"ď", "d"}, {"µ", "u"}};
    double width;
    for (int i = 0; i < COUNT_OF(pairs); i++)
        if (draw(pairs[i][0], &width).sum == draw(pairs[i][1], &width).sum)
            fail_msg("%s looks like %s", pairs[i][0], pairs[i][1]);
    /* composed and in two characters is the same */
    drawn one = draw("xÀy", &width), two = draw("xA\u0300y", &width);
    assert_true(one.strokes == two.strokes && fabs(one.sum - two.sum) < 1e-9);
}

static void unknown_letters_are_their_numbers_and_are_said_once(void **state)
{
    (void)state;
    double width;
    assert_false(gd__font_knows("中", 3));
    assert_true(draw("中", &width).strokes > 6); /* a box and four digits */
    put("d.csv", "中,中文\n1,2\n2,3.1\n3,4\n4,4.8\n");
    static const char *const quiet[] = {"svg", "png", "pdf"};
    for (int i = 0; i < 3; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "fit 'a+b*`中`' d.csv --y '中文' --param a=1 --param b=1 --plot f.%s", quiet[i]);
        assert_int_equal(gradus(command), 0);
        const char *said = strstr(err, "warning: f.");
        assert_true(i ? said && strstr(said, "'中' and others are not among the letters") : !said);
        if (said) assert_null(strstr(said + 1, "warning"));
    }
    put("d.csv", "größe,température\n1,2\n2,3.1\n3,4\n4,4.8\n");
    works("fit 'a+b*größe' d.csv --y température --param a=1 --param b=1 --plot f.png");
    works("fit 'température = α+β*größe' d.csv --param α=1 --param β=1 --bound 'β>0' --json");
    assert_non_null(strstr(out, "\"β\""));
    assert_int_equal(gradus("fit 'a+b*grösse' d.csv --y température --param a=1 --param b=1"), 2);
    assert_non_null(strstr(err, "unknown name 'grösse', did you mean 'größe'?"));
}

/* ---- curves ---- */

static char svg[1 << 21];

/* The longest path that is a line: its points; *sharp: the largest turn of directions from one segment to the next where both
 * are longer than a pixel, in degrees. */
static int longest_line(double *sharp)
{
    int most = 0;
    slurp("f.svg", svg, sizeof svg);
    for (const char *at = svg; (at = strstr(at, " d=\"M")); at++) {
        double x[3] = {0}, y[3] = {0}, turn = 0;
        int count = 0;
        char *s = (char *)at + 5;
        for (;; count++) {
            x[0] = x[1], y[0] = y[1], x[1] = x[2], y[1] = y[2];
            x[2] = strtod(s, &s), y[2] = strtod(s, &s);
            double a[2] = {x[1] - x[0], y[1] - y[0]}, b[2] = {x[2] - x[1], y[2] - y[1]};
            if (count >= 2 && hypot(a[0], a[1]) > 1 && hypot(b[0], b[1]) > 1)
                turn = fmax(turn, fabs(atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1])));
            if (*s != 'L') break;
            s++;
        }
        if (*s == 'Z' || count <= most) continue; /* an area */
        most = count;
        *sharp = turn * 57.29577951;
    }
    return most;
}

static void fitted_curves_are_smooth_however_often_they_turn(void **state)
{
    (void)state;
    FILE *f = fopen("d.csv", "w");
    fprintf(f, "t,y\n");
    for (int i = 0; i < 720; i++)
        fprintf(f, "%.6f,%.6f\n", i / 12.0, i * 0.1 + 30 * sin(2 * M_PI * i / 12.0 + 0.3));
    fclose(f);
    double sharp;
    works(
        "fit 'a + b*t + c*sin(2*pi*t+d)' d.csv --param a=0 --param b=1 --param c=1 --param d=0 --plot f.svg");
    int points = longest_line(&sharp);
    if (points < 60 * 12 || sharp > 35) fail_msg("%d points, turns of %g degrees", points, sharp);
    works("fit 'a + b*t' d.csv --param a=0 --param b=1 --plot f.svg");
    assert_true(longest_line(&sharp) < 1000);
    /* a step between two rows of few */
    put("d.csv", "t,y\n1,0\n10,0\n90,0.11\n100,0.51\n110,0.87\n1000,1\n100000,1\n");
    works("fit '1/(1+(k/t)^20)' d.csv --param k=105 --log x --plot f.svg");
    (void)longest_line(&sharp);
    if (sharp > 20) fail_msg("turns of %g degrees", sharp);
}

static void legends_name_the_file_of_a_set(void **state)
{
    (void)state;
    mkdir("a", 0700), mkdir("b", 0700);
    put("a/one.csv", "t,y\n0,1\n1,2\n2,3.1\n");
    put("b/one.csv", "t,y\n0,2\n1,3\n2,4.1\n");
    put("b/two.csv", "t,y\n0,2\n1,3\n2,4.1\n");
    works("fit 'A[set]+b*t' a/one.csv b/two.csv --param 'A[set]=1' --param b=1 --plot f.svg");
    slurp("f.svg", svg, sizeof svg);
    assert_true(strstr(svg, ">one.csv<") && strstr(svg, ">two.csv<"));
    works("fit 'A[set]+b*t' a/one.csv b/one.csv --param 'A[set]=1' --param b=1 --plot f.svg");
    slurp("f.svg", svg, sizeof svg);
    assert_true(strstr(svg, ">a/one.csv<") && strstr(svg, ">b/one.csv<"));
    put("s.csv", "t,y,kind\n0,1,0\n1,2,0\n2,3.1,1\n3,3,1\n");
    works("fit 'A[kind]+b*t' s.csv --param 'A[kind]=1' --param b=1 --plot f.svg");
    slurp("f.svg", svg, sizeof svg);
    assert_true(strstr(svg, ">kind 0<") && strstr(svg, ">kind 1<"));
}

/* The residuals are below 500; their frame is between the ends of its grid lines. */
static void marks_of_residuals_do_not_meet_their_frame(void **state)
{
    (void)state;
    put("d.csv", "t,y\n0,1\n1,4\n2,-3\n3,2\n4,2\n5,1\n");
    works("fit 'a+0*t' d.csv --param a=1 --plot f.svg");
    slurp("f.svg", svg, sizeof svg);
    double top = INFINITY, bottom = 0, high = INFINITY, low = 0, x0, y0, x1, y1;
    for (const char *at = svg; (at = strstr(at, " d=\"M")); at++)
        if (sscanf(at + 5, "%lf %lfL%lf %lf", &x0, &y0, &x1, &y1) == 4 && x0 == x1 && fmin(y0, y1) > 480 &&
            fabs(y1 - y0) > 20)
            top = fmin(top, fmin(y0, y1)), bottom = fmax(bottom, fmax(y0, y1));
    for (const char *at = svg; (at = strstr(at, " cy=\"")); at++) {
        double y = strtod(at + 5, NULL);
        if (y > top) high = fmin(high, y), low = fmax(low, y);
    }
    if (!(high - top > 5 && bottom - low > 5)) fail_msg("frame %g..%g, marks %g..%g", top, bottom, high, low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_letter_of_the_common_scripts_has_strokes),
        cmocka_unit_test(accents_are_seen),
        PROGRAM_TEST(unknown_letters_are_their_numbers_and_are_said_once),
        PROGRAM_TEST(fitted_curves_are_smooth_however_often_they_turn),
        PROGRAM_TEST(legends_name_the_file_of_a_set),
        PROGRAM_TEST(marks_of_residuals_do_not_meet_their_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
