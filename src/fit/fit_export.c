/* gradus fit --export f.c, f.py or f.tex: the fitted function in other languages. */
#include "file/output.h"
#include "expr/expr_export.h"
#include "fit/fit_job.h"
#include "base/text/ascii.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME 64

typedef struct export
{
    gd_fit *j;
    gd_expr_language language;
    gd_expr_symbol *symbol; /* of each variable of the model */
    char(*name)[NAME];      /* their texts */
    int64_t(*shape)[GD_MAX_DIMS];
    char function[NAME];
    gd_text text;
}
export;

static const struct {
    const char *ending;
    gd_expr_language language;
} endings[] = {{".c", GD_EXPR_C}, {".py", GD_EXPR_PYTHON}, {".tex", GD_EXPR_LATEX}};

/* The length of the ending, and its language; 0: none of them. */
static size_t language_of(const char *path, gd_expr_language *language)
{
    size_t length = strlen(path);
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(endings[i].ending);
        if (length <= size || strcmp(path + length - size, endings[i].ending) != 0) continue;
        *language = endings[i].language;
        return size;
    }
    return 0;
}

/* ---- names ---- */

/* Words that mean something in C or Python, and functions that the text may call. */
static bool is_taken(const char *name)
{
    static const char words[] =
        " auto break case char const continue default do double else enum extern float for goto if inline int long register "
        "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while and as assert async "
        "await class def del elif except finally from global import in is lambda nonlocal not or pass raise try with yield False "
        "None True math abs max min exp log log2 log10 log1p expm1 sqrt fabs sin cos tan asin acos atan atan2 sinh cosh tanh erf "
        "erfc lgamma floor pow fmod fmax fmin asinh acosh atanh trunc isnan isinf hypot main ";
    char padded[NAME + 2];
    (void)snprintf(padded, sizeof padded, " %.60s ", name);
    return strstr(words, padded) != NULL;
}

/* A C identifier: letters, digits and _, not starting with a digit. */
static void plain_name(char out[NAME], const char *name)
{
    size_t used = 0;
    if (gd__is_digit(*name) || !*name) out[used++] = '_';
    for (; *name && used < NAME - 8; name++)
        out[used++] = gd__is_letter(*name) || gd__is_digit(*name) || *name == '_' ? *name : '_';
    out[used] = 0;
    if (is_taken(out)) memcpy(out + used, "_", 2);
}

static bool is_greek(const char *name, size_t length)
{
    static const char words[] =
        " alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
        "phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ";
    char padded[NAME + 2];
    (void)snprintf(padded, sizeof padded, " %.*s ", (int)length, name);
    return length < 20 && strstr(words, padded) != NULL;
}

/* tau is \tau, k1 is k_{1}, x_max is x_{max}, other words are upright. */
static void latex_name(char out[NAME], const char *name)
{
    size_t length = strcspn(name, "_0123456789"), used = 0;
    const char *index = name + length + (name[length] == '_');
    char safe[NAME / 2];
    for (const char *s = index; *s && used < sizeof safe - 1; s++)
        if (gd__is_letter(*s) || gd__is_digit(*s)) safe[used++] = *s;
    safe[used] = 0;
    char stem[NAME / 2];
    size_t kept = 0;
    for (size_t i = 0; i < length && kept < 20; i++)
        if (gd__is_letter(name[i])) stem[kept++] = name[i];
    stem[kept] = 0;
    const char *how = is_greek(stem, kept) ? "\\%s" : kept > 1 ? "\\mathrm{%s}" : "%s";
    (void)snprintf(out, NAME, how, kept ? stem : "x");
    size_t end = strlen(out);
    if (used) (void)snprintf(out + end, NAME - end, "_{%.20s}", safe);
}

/* Names that became equal get a number. */
static void tell_apart(export *x, int i)
{
    for (int k = 0, again = 2; k < i; k++) {
        if (strcmp(x->name[k], x->name[i]) != 0 && strcmp(x->function, x->name[i]) != 0) continue;
        size_t length = strlen(x->name[i]);
        (void)snprintf(x->name[i] + length, NAME - length, "_%d", again++);
        k = -1;
    }
}

static gd_tensor *value_of(const gd_fit *j, int i) { return i < j->params ? j->param[i] : j->value[i]; }

static void name_all(export *x)
{
    gd_fit *j = x->j;
    int columns = j->params + gd__csv_columns(j->csv);
    for (int i = 0; i < j->names; i++) {
        (x->language == GD_EXPR_LATEX ? latex_name : plain_name)(x->name[i], j->name[i]);
        tell_apart(x, i);
        x->symbol[i].text = x->name[i];
        gd_tensor *t = i < j->params || i >= columns ? value_of(j, i) : NULL; /* a column is a number here */
        x->symbol[i].axes = t ? gd_ndim(t) : 0;
        for (int k = 0; t && k < gd_ndim(t); k++) x->shape[i][k] = gd_size(t, k);
        x->symbol[i].shape = x->shape[i];
    }
}

/* ---- pieces ---- */

/* User texts in a comment: one line, without the end of a comment. */
static void put_comment(export *x, const char *text)
{
    for (const char *s = text; *s; s++) {
        gd__text_char(&x->text, (unsigned char)*s < ' ' ? ' ' : *s);
        if (*s == '*' && s[1] == '/') gd__text_char(&x->text, ' ');
    }
}

/* The table that it was fitted to, or the first of several. */
static const char *first_table(const gd_fit *j)
{
    const char *part = gd__csv_part(j->csv, 0);
    return part ? part : gd__csv_source(j->csv);
}

/* After the first line: the units of columns of dates. */
static void put_dates(export *x)
{
    const gd_fit *j = x->j;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        const gd_fit_date *date = gd__fit_uses(j, i) ? gd__fit_date_of(j, i) : NULL;
        char text[GD_FIT_DATE_SIZE];
        if (!date) continue;
        gd__fit_date_print(text, date, " since ");
        gd__text_put(&x->text, " %s in %s.", x->name[i], text);
    }
}

/* One number, or all in brackets. */
static gd_status put_values(export *x, gd_tensor *t, const char *open, const char *close)
{
    int64_t count = gd_numel(t);
    double *v = gd__alloc_array(x->j->ctx, (size_t)count, sizeof *v);
    gd_status status = v ? gd_read_f64(t, v, count) : GD_NOMEM;
    if (gd_ndim(t)) gd__text_add(&x->text, open);
    for (int64_t i = 0; i < count && !status; i++) {
        if (i) gd__text_add(&x->text, ", ");
        gd__export_number(&x->text, x->language, v[i]);
    }
    if (gd_ndim(t)) gd__text_add(&x->text, close);
    gd__free(x->j->ctx, v, (size_t)count * sizeof *v);
    return status;
}

/* The columns, joined; each with `before`. */
static int put_columns(export *x, const char *before)
{
    gd_fit *j = x->j;
    int count = 0;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++)
        if (gd__fit_uses(j, i)) gd__text_put(&x->text, "%s%s%s", count++ ? ", " : "", before, x->name[i]);
    return count;
}

/* Calls `put` for parameters and constants, which the function contains with their values. */
static gd_status each_constant(export *x, gd_status (*put)(export *x, int i, gd_tensor *t))
{
    gd_fit *j = x->j;
    gd_status status = GD_OK;
    for (int i = 0; i < j->names && !status; i++)
        if (i < j->params || i >= j->params + gd__csv_columns(j->csv)) status = put(x, i, value_of(j, i));
    return status;
}

static gd_status put_c_constant(export *x, int i, gd_tensor *t)
{
    gd__text_put(&x->text, "    const double %s", x->name[i]);
    if (gd_ndim(t)) gd__text_put(&x->text, "[%lld]", (long long)gd_numel(t));
    gd__text_add(&x->text, " = ");
    gd_status status = put_values(x, t, "{", "}");
    gd__text_add(&x->text, ";\n");
    return status;
}

static gd_status put_python_constant(export *x, int i, gd_tensor *t)
{
    gd__text_put(&x->text, ", %s=", x->name[i]);
    return put_values(x, t, "(", gd_numel(t) == 1 ? ",)" : ")");
}

/* ---- languages ---- */

/* "COMMENT MODEL, fitted to TABLE by gradus fit." */
static void put_origin(export *x, const char *comment)
{
    gd__text_add(&x->text, comment);
    put_comment(x, x->j->spec.model);
    gd__text_add(&x->text, ", fitted to ");
    put_comment(x, first_table(x->j));
    gd__text_add(&x->text, " by gradus fit.");
    put_dates(x);
}

static gd_status write_c(export *x)
{
    gd_text *out = &x->text;
    put_origin(x, "/* ");
    gd__text_put(out, " */\n#include <math.h>\n\ndouble %s(", x->function);
    if (!put_columns(x, "double ")) gd__text_add(out, "void");
    gd__text_put(out, ");\n\ndouble %s(", x->function);
    if (!put_columns(x, "double ")) gd__text_add(out, "void");
    gd__text_add(out, ")\n{\n");
    gd_status status = each_constant(x, put_c_constant);
    if (!status) status = gd__expr_export(x->j->model, x->language, x->symbol, out);
    gd__text_add(out, ";\n}\n");
    return status;
}

static gd_status write_python(export *x)
{
    gd_text *out = &x->text;
    put_origin(x, "# ");
    gd__text_put(out, "\nimport math\n\n\ndef %s(", x->function);
    size_t before = out->used;
    (void)put_columns(x, "");
    bool none = out->used == before;
    gd_status status = each_constant(x, put_python_constant);
    /* no column: the comma in front of the first constant is one too many */
    if (none && out->data) memcpy(out->data + before, "  ", 2);
    gd__text_add(out, "):\n");
    if (!status) status = gd__expr_export(x->j->model, x->language, x->symbol, out);
    gd__text_char(out, '\n');
    return status;
}

/* A row of the table: each element with its error. */
static gd_status put_latex_constant(export *x, int i, gd_tensor *t)
{
    const gd_fit *j = x->j;
    int64_t at = 0, count = gd_numel(t);
    for (int k = 0; k < i && k < j->params; k++) at += gd_numel(j->param[k]);
    double *v = gd__alloc_array(j->ctx, (size_t)count, sizeof *v);
    gd_status status = v ? gd_read_f64(t, v, count) : GD_NOMEM;
    for (int64_t k = 0; k < count && !status; k++) {
        gd__text_put(&x->text, "  $%s", x->name[i]);
        if (gd_ndim(t)) gd__text_put(&x->text, "_{%lld}", (long long)k);
        gd__text_add(&x->text, "$ & $");
        gd__export_number(&x->text, x->language, v[k]);
        gd__text_add(&x->text, "$ & ");
        if (i < j->params && j->element.error && isfinite(j->element.error[at + k]))
            gd__text_put(&x->text, "$\\pm %.3g$ ", j->element.error[at + k]);
        gd__text_add(&x->text, "\\\\\n");
    }
    gd__free(j->ctx, v, (size_t)count * sizeof *v);
    return status;
}

static gd_status write_latex(export *x)
{
    gd_text *out = &x->text;
    char name[NAME];
    latex_name(name, x->j->y_name);
    put_origin(x, "% ");
    gd__text_put(out, "\n\\[\n  %s = ", name);
    gd_status status = gd__expr_export(x->j->model, x->language, x->symbol, out);
    gd__text_add(out, "\n\\]\n\\begin{tabular}{lrl}\n");
    if (!status) status = each_constant(x, put_latex_constant);
    gd__text_add(out, "\\end{tabular}\n");
    return status;
}

/* ---- the files ---- */

static gd_status make_text(export *x)
{
    static gd_status (*const write[GD_EXPR_LANGUAGES])(export *) = {write_c, write_python, write_latex};
    gd_ctx *ctx = x->j->ctx;
    size_t count = (size_t)x->j->names + 1;
    x->symbol = gd__alloc_array(ctx, count, sizeof *x->symbol);
    x->name = gd__alloc_array(ctx, count, sizeof *x->name);
    x->shape = gd__alloc_array(ctx, count, sizeof *x->shape);
    gd_status status = x->symbol && x->name && x->shape ? GD_OK : GD_NOMEM;
    if (!status) {
        name_all(x);
        status = write[x->language](x);
    }
    gd__free(ctx, x->symbol, count * sizeof *x->symbol);
    gd__free(ctx, x->name, count * sizeof *x->name);
    gd__free(ctx, x->shape, count * sizeof *x->shape);
    return status ? status : x->text.failed ? GD_NOMEM : GD_OK;
}

/* Writes one file, or with `check` only tests whether that is possible. */
gd_status gd__fit_export(gd_fit *j, const char *path, bool check)
{
    export x = {.j = j, .text = gd__text(j->ctx)};
    if (!j->model)
        return gd_fail(j->ctx, GD_ARGUMENT, "{export}: the model is a function, only a text can be exported");
    size_t ending = language_of(path, &x.language);
    if (!ending) return gd_fail(j->ctx, GD_ARGUMENT, "{export} %.200s: .c, .py or .tex is expected", path);
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char stem[NAME];
    (void)snprintf(stem, sizeof stem, "%.*s", (int)fmin((double)(strlen(base) - ending), NAME - 1), base);
    plain_name(x.function, stem);
    gd_status status = check ? gd__check_output(j->ctx, path) : GD_OK;
    if (!status) status = make_text(&x);
    if (!status && !check) status = gd__write_output(j->ctx, path, x.text.data, x.text.used);
    gd__text_free(&x.text);
    return status;
}

gd_status gd_fit_export(gd_fit *fit, const char *path)
{
    if (!fit) return GD_ARGUMENT;
    if (gd_error(fit->ctx)) return gd_error(fit->ctx);
    if (!path) return gd__null(fit->ctx, "gd_fit_export");
    return gd__fit_export(fit, path, false);
}
