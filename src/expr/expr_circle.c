/* Circular definitions: `a = 2*b; b = 3*a`. A definition sees those before it, so the parser finds a circle as an unknown name; this file
 * finds and reports the circle. */
#include "expr/expr_parser.h"
#include "base/text/compose.h"

typedef struct definition {
    const char *name;
    size_t length;
    size_t begin, end; /* of its body */
    int from;          /* the one that led here, -1: none yet */
} definition;

typedef struct book {
    const char *text;
    definition *of;
    int count;
    size_t bytes;
} book;

/* `name =` or `name(a, b) =` at the place of p, which ends behind the '='. */
static bool left_side(gd_expr_parser *p, definition *d)
{
    gd_expr_definition function;
    size_t at = p->at;
    if (gd__parser_definition(p, &function)) {
        d->name = function.name;
        d->length = function.name ? strlen(function.name) : 0;
        return function.name != NULL;
    }
    p->at = at;
    if (!gd__parser_name(p, &d->name, &d->length)) return false;
    return gd__parser_accept(p, '=') && gd__parser_peek(p) != '=';
}

/* All definitions of the text; without the value at its end. */
static bool read_book(gd_expr_parser *p, book *b)
{
    while (gd__parser_peek(p)) {
        definition d = {.from = -1};
        size_t end = p->at < p->e->own ? p->e->own : p->size; /* of the file, or of the expression */
        bool is = left_side(p, &d);
        if (gd_error(p->e->ctx)) return false;
        d.begin = p->at;
        d.end = p->at = gd__parser_body_end(p->text, p->at, end);
        if (is && p->at < p->size) {
            if (!gd__expr_room(p->e, &b->of, &b->bytes, b->count, 1, sizeof d)) return false;
            b->of[b->count++] = d;
        }
        if (p->at < end) p->at++;
    }
    return true;
}

/* Is the name a word of the body?  Comments do not count, equations between quotes do. */
static bool mentions(const book *b, const definition *d, const definition *wanted)
{
    for (size_t at = d->begin; at < d->end;) {
        size_t first = at;
        if (b->text[at] == '#') {
            while (at < d->end && b->text[at] != '\n') at++;
        } else if (gd__name_letter(b->text + at, d->end - at)) {
            for (size_t n = 1; n; at += n) n = gd__name_letter(b->text + at, d->end - at);
            if (at - first == wanted->length && !memcmp(b->text + first, wanted->name, wanted->length))
                return true;
        } else
            at++;
    }
    return false;
}

/* The last definition of a name, -1: none. */
static int find_definition(const book *b, const char *name, size_t length)
{
    for (int i = b->count; i-- > 0;)
        if (b->of[i].length == length && !memcmp(b->of[i].name, name, length)) return i;
    return -1;
}

/* Follows the dependencies of `first`, breadth first; returns the definition that needs `last`, -1: none. */
static int follow(book *b, int first, int last, int *queue)
{
    int head = 0, tail = 0;
    queue[tail++] = first;
    b->of[first].from = first;
    while (head < tail) {
        int at = queue[head++];
        if (mentions(b, &b->of[at], &b->of[last])) return at;
        for (int i = 0; i < b->count; i++)
            if (b->of[i].from < 0 && mentions(b, &b->of[at], &b->of[i])) {
                b->of[i].from = at;
                queue[tail++] = i;
            }
    }
    return -1;
}

static void put_name(gd_text *out, const definition *d)
{
    gd__text_put(out, "%.*s", d->length > 40 ? 40 : (int)d->length, d->name);
}

/* "a -> b -> a", from the path to `end`. */
static void put_circle(gd_text *out, const book *b, int defined, int end, int *path)
{
    int steps = 0;
    for (int at = end; at != defined; at = b->of[at].from) {
        path[steps++] = at;
        if (b->of[at].from == at) break;
    }
    put_name(out, &b->of[defined]);
    while (steps-- > 0 && out->used < 250) {
        gd__text_add(out, " -> ");
        put_name(out, &b->of[path[steps]]);
    }
    gd__text_add(out, steps > 0 ? " -> ... -> " : " -> ");
    put_name(out, &b->of[defined]);
}

/* Reports the use of a definition in an earlier definition, or in itself. */
static void say(gd_expr_parser *p, size_t at, book *b, int defined, int needed)
{
    size_t bytes = (size_t)b->count * sizeof(int);
    int *queue = gd__alloc(p->e->ctx, bytes);
    if (!queue) return;
    gd_text out = gd__text(p->e->ctx);
    int end = defined == needed ? defined : follow(b, needed, defined, queue);
    gd__text_char(&out, '\'');
    put_name(&out, &b->of[end < 0 ? needed : defined]);
    gd__text_add(&out, end < 0 ? "' is defined after its use: its definition belongs before that of '"
                               : "' needs itself: ");
    if (end < 0)
        put_name(&out, &b->of[defined]);
    else
        put_circle(&out, b, defined, end, queue);
    if (end < 0) gd__text_char(&out, '\'');
    if (!out.failed) (void)gd__parser_fail(p, at, "%s", gd__text_string(&out));
    gd__text_free(&out);
    gd__free(p->e->ctx, queue, bytes);
}

bool gd__parser_circle(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    const gd_expr_parser *root = p;
    while (root->outer) root = root->outer;
    if (!root->defining) return false; /* the value sees all definitions */
    gd_expr_parser reader = {.e = root->e, .text = root->text, .size = strlen(root->text)};
    book b = {.text = root->text};
    bool ok = read_book(&reader, &b);
    int defined = ok ? find_definition(&b, root->defining, root->defining_length) : -1,
        needed = ok ? find_definition(&b, name, length) : -1;
    bool wrong = defined >= 0 && needed >= defined;
    if (wrong) say(p, at, &b, defined, needed);
    gd__free(root->e->ctx, b.of, b.bytes);
    return wrong || !ok;
}
