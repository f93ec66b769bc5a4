/* Ticks of an axis. */
#include "plot/plot_internal.h"
#include "base/text/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(gd_ticks *t, double at)
{
    if (t->count < GD_MAX_TICKS) t->at[t->count++] = at;
}

/* 1, 2 or 5 times a power of ten, near `rough`. */
static double round_step(double rough)
{
    double power = pow(10, floor(log10(rough))), ratio = rough / power;
    return power * (ratio <= 1.4 ? 1 : ratio <= 3 ? 2 : ratio <= 7 ? 5 : 10);
}

/* Without an exponent if that is short; the exponent without its zeros. */
static void plain_label(char out[32], double value, int digits)
{
    char text[32];
    (void)gd__format(text, sizeof text, "%.*g", digits, value);
    char *e = strchr(text, 'e');
    if (!e) {
        memcpy(out, text, sizeof text);
        return;
    }
    char *power = e + 1;
    bool negative = *power == '-';
    while (*power == '+' || *power == '-' || *power == '0') power++;
    (void)snprintf(out, 32, "%.*s%s%.6s", (int)(e - text + 1), text, negative ? "-" : "",
                   *power ? power : "0");
}

static void linear_labels(gd_ticks *t, double step)
{
    double largest = 0;
    for (int i = 0; i < t->count; i++) largest = fmax(largest, fabs(t->at[i]));
    int decimals = (int)fmax(0, ceil(-log10(step) - 1e-9));
    bool plain = largest < 1e6 && decimals <= 6;
    int digits = largest > 0 ? (int)ceil(log10(largest / step)) + 2 : 1;
    for (int i = 0; i < t->count; i++) {
        if (plain)
            (void)gd__format(t->label[i], sizeof t->label[i], "%.*f", decimals, t->at[i]);
        else
            plain_label(t->label[i], t->at[i], digits > 15 ? 15 : digits < 1 ? 1 : digits);
    }
}

static void linear_ticks(gd_ticks *t, double low, double high, int wanted)
{
    double range = high - low;
    if (!(range > 0) || !isfinite(range)) {
        add(t, low);
        plain_label(t->label[0], low, 6);
        return;
    }
    double step = round_step(range / wanted);
    for (double k = ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && t->count < GD_MAX_TICKS; k++)
        add(t, k == 0 ? 0 : k * step);
    linear_labels(t, step);
}

static void decades(gd_ticks *t, int first, int last, int stride)
{
    for (int k = first; k <= last; k++) {
        if (k % stride != 0) continue;
        add(t, pow(10, k));
        plain_label(t->label[t->count - 1], pow(10, k), 3);
        if (k >= -3 && k <= 3)
            (void)gd__format(t->label[t->count - 1], 32, "%.*f", k < 0 ? -k : 0, pow(10, k));
    }
}

/* 1, 2 and 5 times each power of ten. */
static void thirds(gd_ticks *t, double low, double high)
{
    static const int digits[] = {1, 2, 5};
    for (int k = (int)floor(log10(low)); k <= (int)ceil(log10(high)); k++) {
        for (int i = 0; i < 3; i++) {
            double at = digits[i] * pow(10, k);
            if (at < low * (1 - 1e-9) || at > high * (1 + 1e-9) || t->count == GD_MAX_TICKS) continue;
            add(t, at);
            plain_label(t->label[t->count - 1], at, 3);
        }
    }
}

static void log_ticks(gd_ticks *t, double low, double high, int wanted)
{
    int first = (int)ceil(log10(low) - 1e-9), last = (int)floor(log10(high) + 1e-9);
    if (last - first >= 2) {
        int stride = 1;
        while ((last - first) / stride >= wanted + 2) stride++;
        decades(t, first, last, stride);
    } else if (high / low > 4) {
        thirds(t, low, high);
    } else {
        linear_ticks(t, low, high, wanted);
    }
}

void gd__ticks(gd_ticks *out, double low, double high, bool log, int wanted)
{
    memset(out, 0, sizeof *out);
    if (wanted > GD_MAX_TICKS - 4) wanted = GD_MAX_TICKS - 4;
    if (log)
        log_ticks(out, low, high, wanted);
    else
        linear_ticks(out, low, high, wanted);
}

bool gd__spans_decades(const double *values, size_t count, double *low, double *high)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] < 0) *low = -INFINITY;
        if (isfinite(values[i]) && values[i] > 0) {
            *low = fmin(*low, values[i]);
            *high = fmax(*high, values[i]);
        }
    }
    return *low > 0 && *high > 100 * *low;
}
