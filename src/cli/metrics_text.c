/* Measures of a model as text and JSON; see metrics_text.h. */
#include "cli/metrics_text.h"

#include <math.h>

#define CLASSES_SHOWN  30
#define CONFUSED_SHOWN 12

/* ---- of all rows ---- */

void gd__metrics_print(gd_text *out, gd_task task, const gd_metrics *m)
{
    gd__text_put(out, "loss %.6g, ", m->loss);
    if (task == GD_TASK_CLASSIFY)
        gd__text_put(out, "accuracy %.2f %%", 100 * m->accuracy);
    else
        gd__text_put(out, "rmse %.6g, R2 %.6f", m->rmse, m->r2);
    if (!isnan(m->f1)) gd__text_put(out, ", F1 %.4f", m->f1);
    if (!isnan(m->auc)) gd__text_put(out, ", AUC %.4f", m->auc);
    if (!isnan(m->below)) gd__text_put(out, ", %.2f %% not above", 100 * m->below);
    gd__text_char(out, '\n');
}

void gd__json_metrics(gd_text *out, const gd_metrics *m)
{
    for (int i = 0; i < GD_METRICS; i++) {
        double value = gd__metric_of(&gd__metric[i], m);
        if (i == 0 || !isnan(value)) gd__json_put_number(out, gd__metric[i].name, value);
    }
}

/* ---- class by class ---- */

/* A name cut or padded to a width, assuming letters of one column. */
static void put_name(gd_text *out, const char *name, int width)
{
    int columns = 0;
    size_t bytes = 0;
    for (size_t length; name[bytes] && columns < width && (length = gd__utf8_length(name + bytes)); columns++)
        bytes += length;
    gd__text_plain(out, name, bytes, false);
    for (; columns < width; columns++) gd__text_char(out, ' ');
}

static void put_share(gd_text *out, double share)
{
    if (isnan(share))
        gd__text_add(out, "         -");
    else
        gd__text_put(out, "  %8.4f", share);
}

static void print_confusion(gd_text *out, const gd_report *r, const gd_words *names)
{
    gd__text_put(out, "right \\ answered");
    for (int64_t k = 0; k < r->classes; k++) {
        gd__text_add(out, "  ");
        put_name(out, names->word[k], 8);
    }
    gd__text_char(out, '\n');
    for (int64_t i = 0; i < r->classes; i++) {
        put_name(out, names->word[i], 16);
        for (int64_t k = 0; k < r->classes; k++)
            gd__text_put(out, "  %-8lld", (long long)r->confusion[i * r->classes + k]);
        gd__text_char(out, '\n');
    }
}

void gd__report_print(gd_text *out, const gd_report *r, const gd_words *names)
{
    if (r->classes > CLASSES_SHOWN) return;
    gd__text_add(out, "class             precision    recall        F1       AUC      rows\n");
    for (int64_t k = 0; k < r->classes; k++) {
        put_name(out, names->word[k], 17);
        const double shares[] = {r->precision[k], r->recall[k], r->f1[k], r->auc[k]};
        for (int i = 0; i < 4; i++) put_share(out, shares[i]);
        gd__text_put(out, "  %8lld\n", (long long)r->count[k]);
    }
    if (r->classes <= CONFUSED_SHOWN) print_confusion(out, r, names);
}

void gd__json_report(gd_text *out, const gd_report *r, const gd_words *names)
{
    gd__json_put_number(out, "brier", r->brier);
    gd__text_add(out, ", \"by_class\": [");
    for (int64_t k = 0; k < r->classes; k++) {
        gd__text_add(out, k ? ", {" : "{");
        gd__json_put_string(out, "class", names->word[k]);
        gd__json_put_number(out, "precision", r->precision[k]);
        gd__json_put_number(out, "recall", r->recall[k]);
        gd__json_put_number(out, "f1", r->f1[k]);
        gd__json_put_number(out, "auc", r->auc[k]);
        gd__json_put_whole(out, "rows", r->count[k]);
        gd__text_char(out, '}');
    }
    gd__text_add(out, "], \"confusion\": [");
    for (int64_t i = 0; i < r->classes; i++) {
        gd__text_add(out, i ? ", [" : "[");
        for (int64_t k = 0; k < r->classes; k++)
            gd__text_put(out, "%s%lld", k ? ", " : "", (long long)r->confusion[i * r->classes + k]);
        gd__text_char(out, ']');
    }
    gd__text_char(out, ']');
}
