/* The text of a selection of parameters:
 *
 *     selection = all { "or" all }          all = one { ("and" | ",") one }
 *     one       = "not" one | GLOB          of the name
 *               | "axes" OP NUMBER | "numel" OP NUMBER | "axis" OP GLOB | "label" OP GLOB.GLOB      OP: < <= > >= = !=
 *
 * It is short and read again for every parameter: selections are evaluated when programs are made, not in steps. */
#include "gradus/module.h"
#include "gradus/optim.h"
#include "base/text/scan.h"

#include <string.h>

#define WORD_SIZE 256

typedef struct selecting {
    gd_text_scan scan;
    const char *name;
    const gd_tensor *t; /* NULL: only the text is checked */
} selecting;

static bool ends_word(char c) { return !c || c == ' ' || c == '\t' || c == '\n' || c == ','; }

/* A glob, or the operand of an operator: to the next space or comma that is not in a set or behind a backslash. */
static gd_status take_word(gd_text_scan *s, const char *what, char word[WORD_SIZE])
{
    if (ends_word(gd__scan_peek(s))) return gd__scan_expected(s, what);
    size_t begin = s->at, end = begin;
    bool set = false;
    for (const char *text = s->text; text[end] && (set || !ends_word(text[end])); end++) {
        if (text[end] == '\\' && text[end + 1])
            end++;
        else if (text[end] == '[' || text[end] == ']')
            set = text[end] == '[';
    }
    if (end - begin >= WORD_SIZE)
        return gd__scan_fail(s, begin, "'%.20s...' is longer than %d letters", s->text + begin,
                             WORD_SIZE - 1);
    memcpy(word, s->text + begin, end - begin);
    word[end - begin] = 0;
    s->at = end;
    return GD_OK;
}

/* Takes a word of the language if it is next. */
static bool take_keyword(gd_text_scan *s, const char *keyword)
{
    size_t n = strlen(keyword);
    (void)gd__scan_peek(s);
    if (strncmp(s->text + s->at, keyword, n) || !ends_word(s->text[s->at + n])) return false;
    s->at += n;
    return true;
}

/* Takes one of < <= > >= = == != and gives the signs of a difference that it accepts as bits: 1 below, 2 equal, 4 above. */
static unsigned take_comparison(gd_text_scan *s)
{
    char c = gd__scan_peek(s);
    bool equal = c && s->text[s->at + 1] == '=';
    if (c != '<' && c != '>' && c != '=' && !(c == '!' && equal)) return 0;
    s->at += equal ? 2 : 1;
    if (c == '!') return 1 | 4;
    return c == '=' ? 2 : (c == '<' ? 1 : 4) | (equal ? 2 : 0);
}

/* A key of a comparison, and the comparison; 0, and nothing taken, if there is none: it is a glob. */
static unsigned take_key(gd_text_scan *s, const char *key)
{
    size_t at = s->at, n = strlen(key);
    (void)gd__scan_peek(s);
    bool is = !strncmp(s->text + s->at, key, n);
    if (is) s->at += n;
    unsigned accepted = is ? take_comparison(s) : 0;
    if (!accepted) s->at = at;
    return accepted;
}

static bool axis_matches(const gd_tensor *t, int axis, const char *glob)
{
    const char *name = gd_axis_name(t, axis);
    return gd_glob_match(glob, name ? name : "");
}

static bool label_matches(const gd_tensor *t, int axis, const char *glob)
{
    const char *label;
    for (int64_t i = 0; (label = gd_axis_label(t, axis, i)); i++)
        if (gd_glob_match(glob, label)) return true;
    return false;
}

/* labels NULL: the name of the axis is enough. */
static bool any_axis(const gd_tensor *t, const char *axes, const char *labels)
{
    for (int i = 0; t && i < gd_ndim(t); i++)
        if (axis_matches(t, i, axes) && (!labels || label_matches(t, i, labels))) return true;
    return false;
}

static gd_status compare_number(selecting *w, unsigned accepted, double value, bool *yes)
{
    double number;
    gd_status status = gd__scan_number(&w->scan, &number);
    if (!status) *yes = accepted & (value < number ? 1 : value > number ? 4 : 2);
    return status;
}

static gd_status compare_axis(selecting *w, unsigned accepted, bool labels, bool *yes)
{
    char word[WORD_SIZE], *dot = NULL;
    size_t at = w->scan.at;
    if (accepted != 2 && accepted != (1 | 4))
        return gd__scan_fail(&w->scan, at, "names of axes and labels are compared with = or !=");
    gd_status status = take_word(&w->scan, labels ? "AXIS.LABEL" : "the name of an axis", word);
    if (!status && labels && !(dot = strchr(word, '.')))
        return gd__scan_fail(&w->scan, at, "expected AXIS.LABEL (*.LABEL: on any axis), got '%.60s'", word);
    if (dot) *dot = 0;
    if (!status) *yes = any_axis(w->t, word, dot ? dot + 1 : NULL) == (accepted == 2);
    return status;
}

static gd_status select_one(selecting *w, bool *yes)
{
    gd_text_scan *s = &w->scan;
    char word[WORD_SIZE];
    unsigned accepted;
    bool negated = false;
    while (take_keyword(s, "not")) negated = !negated;
    gd_status status = GD_OK;
    if ((accepted = take_key(s, "axes")))
        status = compare_number(w, accepted, w->t ? gd_ndim(w->t) : 0, yes);
    else if ((accepted = take_key(s, "numel")))
        status = compare_number(w, accepted, w->t ? (double)gd_numel(w->t) : 0, yes);
    else if ((accepted = take_key(s, "axis")))
        status = compare_axis(w, accepted, false, yes);
    else if ((accepted = take_key(s, "label")))
        status = compare_axis(w, accepted, true, yes);
    else if (!(status = take_word(s, "a name, axes, numel, axis or label", word)))
        *yes = gd_glob_match(word, w->name ? w->name : "");
    *yes = *yes != negated;
    return status;
}

static gd_status select_all(selecting *w, bool *yes)
{
    gd_status status = select_one(w, yes);
    while (!status && (gd__scan_take(&w->scan, ',') || take_keyword(&w->scan, "and"))) {
        bool next = false;
        status = select_one(w, &next);
        *yes = *yes && next;
    }
    return status;
}

gd_status gd_select(gd_ctx *ctx, const char *selection, const char *name, const gd_tensor *t, bool *yes)
{
    if (!ctx) return GD_ARGUMENT;
    selecting w = {.name = name, .t = t};
    bool matches = false, next = false;
    gd_status status = gd__scan_begin(&w.scan, ctx, "selection", selection);
    if (!status) status = select_all(&w, &matches);
    while (!status && take_keyword(&w.scan, "or")) {
        status = select_all(&w, &next);
        matches = matches || next;
    }
    if (!status && gd__scan_peek(&w.scan)) status = gd__scan_expected(&w.scan, "',', 'and' or 'or'");
    if (!status && yes) *yes = matches;
    return status;
}
