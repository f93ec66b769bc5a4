/* An elimination order with little fill-in: minimum degree on quotient graphs, with approximate external degrees (Amestoy, Davis & Duff,
 * SIAM J. Matrix Anal. 17, 1996).
 *
 * The graph of J^T J has the columns as vertices; columns of one row are neighbours.  Eliminating a vertex joins its neighbours.  They
 * are not joined one by one: the vertex becomes an element, a set of vertices that are neighbours of each other.  Elements that a new one
 * contains vanish, and so do edges inside it, so that the graph never takes more memory than at the beginning, except for the members of
 * elements, which are in a pool.
 *
 * Vertices with the same neighbours are eliminated together: columns with the same rows are joined before the start, others when they become
 * equal. */
#include "optim/solve/numbers/sparse.h"

#include <string.h>

#define NONE (-1)

typedef struct quotient {
    gd_ctx *ctx;
    int32_t n;
    int64_t edges; /* in `list` */
    size_t list_room, member_room;
    int64_t *start;           /* [n + 1] in list: elements of a vertex, then its neighbours */
    int32_t *elements, *near; /* [n] how many of either */
    int32_t *list;
    int32_t *weight; /* [n] columns that a vertex stands for; 0: eliminated or joined to another */
    int32_t *joined; /* [n] next column of the same vertex; NONE: the last */
    int32_t *last;   /* [n] last column of a vertex */
    int32_t *degree, *next, *prev, *head;
    int64_t *from, *size;     /* [n] members of an element in the pool; size: NONE where it has vanished */
    int32_t *heavy, *outside; /* [n] weight of an element's members; of those outside the new element */
    int32_t *member;          /* the pool */
    int64_t members;
    int32_t *mark, *seen; /* [n] stamps */
    uint32_t *hash;       /* [n] */
    int32_t stamp, left;
} quotient;

/* clang-format off */
#define PER_VERTEX(X) X(elements) X(near) X(weight) X(joined) X(last) X(degree) X(next) X(prev) X(head) X(from) X(size) X(heavy) \
    X(outside) X(mark) X(seen) X(hash)
/* clang-format on */

static bool make(quotient *q)
{
    size_t n = (size_t)q->n;
#define MAKE(name) &&(q->name = gd__calloc(q->ctx, n * sizeof *q->name))
    return (q->start = gd__calloc(q->ctx, (n + 1) * sizeof *q->start)) PER_VERTEX(MAKE);
#undef MAKE
}

static void drop(quotient *q)
{
    size_t n = (size_t)q->n;
    gd__free(q->ctx, q->start, (n + 1) * sizeof *q->start);
#define DROP(name) gd__free(q->ctx, q->name, n * sizeof *q->name);
    PER_VERTEX(DROP)
#undef DROP
    gd__free(q->ctx, q->list, q->list_room);
    gd__free(q->ctx, q->member, q->member_room);
}

/* ---- the graph at the start ---- */

static bool same_rows(const gd_csr *j, int32_t a, int32_t b)
{
    int64_t count = j->down[a + 1] - j->down[a];
    return count == j->down[b + 1] - j->down[b] &&
           !memcmp(j->row + j->down[a], j->row + j->down[b], (size_t)count * sizeof *j->row);
}

/* Columns with the same rows become one vertex: that of the first of them. */
static void join_columns(quotient *q, const gd_csr *j)
{
    for (int32_t c = 0; c < q->n; c++) q->head[c] = NONE;
    for (int32_t c = 0; c < q->n; c++) {
        uint32_t hash = 2166136261u;
        for (int64_t e = j->down[c]; e < j->down[c + 1]; e++) hash = (hash ^ (uint32_t)j->row[e]) * 16777619u;
        int32_t bucket = (int32_t)(hash % (uint32_t)q->n), other = q->head[bucket];
        q->weight[c] = 1;
        q->joined[c] = NONE;
        q->last[c] = c;
        while (other != NONE && (q->hash[other] != hash || !same_rows(j, c, other))) other = q->next[other];
        q->hash[c] = hash;
        if (other == NONE) {
            q->next[c] = q->head[bucket];
            q->head[bucket] = c;
        } else {
            q->joined[q->last[other]] = c;
            q->last[other] = c;
            q->weight[other]++;
            q->weight[c] = 0;
        }
    }
}

/* The neighbours of every vertex; out NULL: their number only. */
static int64_t neighbours(quotient *q, const gd_csr *j, int32_t *out)
{
    int64_t edges = 0;
    for (int32_t c = 0; c < q->n; c++) q->mark[c] = NONE;
    for (int32_t c = 0; c < q->n; c++) {
        q->start[c] = edges;
        q->near[c] = 0;
        if (!q->weight[c]) continue;
        q->mark[c] = c;
        for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
            for (int64_t e = j->start[j->row[d]]; e < j->start[j->row[d] + 1]; e++) {
                int32_t other = (int32_t)j->column[e];
                if (!q->weight[other] || q->mark[other] == c) continue;
                q->mark[other] = c;
                if (out) out[edges] = other;
                edges++;
                q->near[c]++;
            }
    }
    q->start[q->n] = edges;
    return edges;
}

static int32_t weigh(const quotient *q, const int32_t *vertex, int64_t count)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += q->weight[vertex[i]];
    return sum;
}

static void file(quotient *q, int32_t v, int32_t degree)
{
    q->degree[v] = degree;
    q->prev[v] = NONE;
    q->next[v] = q->head[degree];
    if (q->head[degree] != NONE) q->prev[q->head[degree]] = v;
    q->head[degree] = v;
}

static void unfile(quotient *q, int32_t v)
{
    if (q->prev[v] != NONE)
        q->next[q->prev[v]] = q->next[v];
    else
        q->head[q->degree[v]] = q->next[v];
    if (q->next[v] != NONE) q->prev[q->next[v]] = q->prev[v];
}

/* False: no memory. */
static bool begin_graph(quotient *q, const gd_csr *j)
{
    if (!make(q)) return false;
    join_columns(q, j);
    q->edges = neighbours(q, j, NULL);
    q->list_room = ((size_t)q->edges + 1) * sizeof *q->list;
    q->member_room = ((size_t)q->edges / 2 + 64) * sizeof *q->member;
    if (!(q->list = gd__alloc(q->ctx, q->list_room)) || !(q->member = gd__alloc(q->ctx, q->member_room)))
        return false;
    neighbours(q, j, q->list);
    for (int32_t c = 0; c < q->n; c++) q->head[c] = NONE, q->mark[c] = q->seen[c] = 0;
    q->left = q->n;
    for (int32_t c = q->n - 1; c >= 0; c--)
        if (q->weight[c]) file(q, c, weigh(q, q->list + q->start[c], q->near[c]));
    return true;
}

/* ---- one elimination ---- */

static bool add_member(quotient *q, int32_t v)
{
    size_t need = ((size_t)q->members + 1) * sizeof *q->member;
    if (need > q->member_room) {
        size_t room = 2 * q->member_room;
        int32_t *grown = gd__realloc(q->ctx, q->member, q->member_room, room);
        if (!grown) return false;
        q->member = grown;
        q->member_room = room;
    }
    q->member[q->members++] = v;
    return true;
}

static bool join_element(quotient *q, int32_t p, int32_t v)
{
    if (v == p || !q->weight[v] || q->mark[v] == q->stamp) return true;
    q->mark[v] = q->stamp;
    unfile(q, v);
    return add_member(q, v);
}

/* Element p: all neighbours of vertex p. It absorbs the elements of p. */
static bool make_element(quotient *q, int32_t p)
{
    const int32_t *list = q->list + q->start[p];
    q->stamp++;
    q->from[p] = q->members;
    for (int32_t k = 0; k < q->elements[p]; k++) {
        int32_t e = list[k];
        for (int64_t i = 0; i < q->size[e]; i++)
            if (!join_element(q, p, q->member[q->from[e] + i])) return false;
        q->size[e] = NONE;
    }
    for (int32_t k = q->elements[p]; k < q->elements[p] + q->near[p]; k++)
        if (!join_element(q, p, list[k])) return false;
    q->size[p] = q->members - q->from[p];
    return true;
}

/* outside[e]: weight of the members of each element that are not in p. */
static void measure_elements(quotient *q, int32_t p)
{
    for (int64_t i = 0; i < q->size[p]; i++) {
        int32_t v = q->member[q->from[p] + i];
        for (int32_t k = 0; k < q->elements[v]; k++) {
            int32_t e = q->list[q->start[v] + k];
            if (q->size[e] == NONE) continue;
            if (q->seen[e] != q->stamp) q->seen[e] = q->stamp, q->outside[e] = q->heavy[e];
            q->outside[e] -= q->weight[v];
        }
    }
}

/* The lists of a member of p, with p first and without the entries that p contains; its approximate degree. */
static int32_t update(quotient *q, int32_t p, int32_t v)
{
    int32_t *list = q->list + q->start[v], kept = 0, near = 0, degree = 0,
            old[2] = {q->elements[v], q->near[v]};
    uint32_t hash = (uint32_t)p;
    int32_t first = NONE; /* room for p: at least one list has become shorter */
    for (int32_t k = 0; k < old[0]; k++) {
        int32_t e = list[k];
        if (q->size[e] == NONE) continue;
        if (!q->outside[e]) {
            q->size[e] = NONE; /* inside p */
            continue;
        }
        degree += q->outside[e];
        hash += (uint32_t)e;
        list[kept++] = e;
    }
    int32_t at = kept;
    for (int32_t k = old[0]; k < old[0] + old[1]; k++) {
        int32_t u = list[k];
        if (!q->weight[u] || u == p || q->mark[u] == q->stamp) continue;
        degree += q->weight[u];
        hash += (uint32_t)u;
        list[at++] = u;
        near++;
    }
    /* p is inserted between the lists: the neighbour there moves to the end */
    first = kept;
    if (near) list[at] = list[first];
    list[first] = p;
    q->elements[v] = kept + 1;
    q->near[v] = near;
    q->hash[v] = hash;
    return degree;
}

/* Do two members have the same lists? */
static bool same_lists(quotient *q, int32_t a, int32_t b)
{
    if (q->hash[a] != q->hash[b] || q->elements[a] != q->elements[b] || q->near[a] != q->near[b])
        return false;
    int32_t count = q->elements[a] + q->near[a];
    const int32_t *x = q->list + q->start[a], *y = q->list + q->start[b];
    q->stamp++;
    for (int32_t k = 0; k < count; k++) q->seen[x[k]] = q->stamp;
    for (int32_t k = 0; k < count; k++)
        if (q->seen[y[k]] != q->stamp) return false;
    return true;
}

static void merge(quotient *q, int32_t into, int32_t v)
{
    q->weight[into] += q->weight[v];
    q->weight[v] = 0;
    q->joined[q->last[into]] = v;
    q->last[into] = q->last[v];
}

/* Members that have become equal are merged into one vertex; buckets by hash, in next. */
static void join_alike(quotient *q, int32_t p)
{
    int32_t *member = q->member + q->from[p];
    int64_t count = q->size[p];
    /* sorted by hash so that only neighbours are compared */
    for (int64_t gap = count / 2; gap > 0; gap /= 2)
        for (int64_t i = gap; i < count; i++) {
            int32_t v = member[i];
            int64_t k = i;
            for (; k >= gap && (q->hash[member[k - gap]] > q->hash[v] ||
                                (q->hash[member[k - gap]] == q->hash[v] && member[k - gap] > v));
                 k -= gap)
                member[k] = member[k - gap];
            member[k] = v;
        }
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = i + 1; q->weight[member[i]] && k < count && q->hash[member[k]] == q->hash[member[i]];
             k++)
            if (q->weight[member[k]] && same_lists(q, member[i], member[k])) merge(q, member[i], member[k]);
}

static int64_t emit(quotient *q, int32_t v, int32_t *order, int64_t done)
{
    for (int32_t c = v; c != NONE; c = q->joined[c]) order[done++] = c;
    return done;
}

/* Eliminates p.  False: no memory. */
static bool eliminate(quotient *q, int32_t p)
{
    unfile(q, p);
    if (!make_element(q, p)) return false;
    measure_elements(q, p);
    int32_t stamp = q->stamp, all = weigh(q, q->member + q->from[p], q->size[p]);
    q->left -= q->weight[p];
    for (int64_t i = 0; i < q->size[p]; i++) {
        int32_t v = q->member[q->from[p] + i], apart = update(q, p, v);
        if (q->elements[v] == 1 && !q->near[v]) { /* no neighbour outside p: it comes right after */
            q->left -= q->weight[v];
            all -= q->weight[v];
            merge(q, p, v);
        } else
            q->degree[v] = apart;
    }
    join_alike(q, p);
    int64_t kept = 0;
    for (int64_t i = 0; i < q->size[p]; i++) {
        int32_t v = q->member[q->from[p] + i];
        if (!q->weight[v]) continue;
        int32_t degree = q->degree[v] + all - q->weight[v], most = q->left - q->weight[v];
        q->member[q->from[p] + kept++] = v;
        file(q, v, degree < most ? degree : most);
    }
    q->members = q->from[p] + kept;
    q->size[p] = kept;
    q->heavy[p] = all;
    if (q->stamp < stamp || q->stamp > INT32_MAX - 2 * q->n - 8) { /* stamps start again */
        memset(q->mark, 0, (size_t)q->n * sizeof *q->mark);
        memset(q->seen, 0, (size_t)q->n * sizeof *q->seen);
        q->stamp = 0;
    }
    return true;
}

gd_status gd__min_degree(gd_ctx *ctx, const gd_csr *j, int64_t most, int32_t *order, bool *fits)
{
    quotient q = {.ctx = ctx, .n = (int32_t)j->n};
    bool ok = begin_graph(&q, j);
    int64_t done = 0, fill = 0;
    int32_t lowest = 0;
    while (ok && q.left && fill <= most) {
        while (q.head[lowest] == NONE) lowest++;
        int32_t p = q.head[lowest];
        ok = eliminate(&q, p);
        /* the columns of p and of vertices merged into it are eliminated together */
        int64_t width = q.weight[p];
        q.weight[p] = 0;
        fill += width * (q.heavy[p] + (width - 1) / 2);
        done = emit(&q, p, order, done);
        for (int64_t i = 0; i < q.size[p]; i++) {
            int32_t degree = q.degree[q.member[q.from[p] + i]];
            if (degree < lowest) lowest = degree;
        }
    }
    *fits = ok && !q.left;
    drop(&q);
    return ok ? GD_OK : GD_NOMEM;
}
