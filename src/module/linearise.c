/* The method order of a class: C3 (Barrett et al., OOPSLA 1996).
 *
 *   order(C) = C + merge(order(B1), ..., order(Bn), [B1, ..., Bn])
 *
 * merge repeatedly takes the first head that is in no tail of another sequence. So a class comes before its
 * bases, bases keep their given order, and if both are impossible there is no order. */
#include "module/class_internal.h"

#include <stdio.h>
#include <string.h>

/* The rest of one sequence. */
typedef struct sequence {
    const gd_class *const *item;
    int count;
} sequence;

static bool in_a_tail(const sequence *sequences, int count, const gd_class *candidate)
{
    for (int s = 0; s < count; s++)
        for (int i = 1; i < sequences[s].count; i++)
            if (sequences[s].item[i] == candidate) return true;
    return false;
}

/* The next class of the merge; NULL when every head is blocked. */
static const gd_class *next_class(const sequence *sequences, int count)
{
    for (int s = 0; s < count; s++)
        if (sequences[s].count && !in_a_tail(sequences, count, sequences[s].item[0]))
            return sequences[s].item[0];
    return NULL;
}

static void drop_head(sequence *sequences, int count, const gd_class *taken)
{
    for (int s = 0; s < count; s++) {
        if (!sequences[s].count || sequences[s].item[0] != taken) continue;
        sequences[s].item++;
        sequences[s].count--;
    }
}

static int longest_possible(const sequence *sequences, int count)
{
    int total = 1;
    for (int s = 0; s < count; s++) total += sequences[s].count;
    return total;
}

/* Appends ", 'name'" as far as there is room. */
static void add_name(char *text, size_t size, const gd_class *cls)
{
    size_t used = strlen(text);
    if (used + 1 < size) snprintf(text + used, size - used, "%s'%s'", used ? ", " : "", cls->name);
}

/* Names the bases and the heads that block each other. */
static gd_status no_order(gd_class *cls, gd_class *const *bases, int base_count, const sequence *sequences,
                          int count)
{
    char all[256] = "", blocked[256] = "";
    for (int b = 0; b < base_count; b++) add_name(all, sizeof all, bases[b]);
    for (int s = 0; s < count; s++) {
        bool named = !sequences[s].count;
        for (int earlier = 0; earlier < s && !named; earlier++)
            named = sequences[earlier].count && sequences[earlier].item[0] == sequences[s].item[0];
        if (!named) add_name(blocked, sizeof blocked, sequences[s].item[0]);
    }
    return gd_fail(cls->ctx, GD_TYPE,
                   "class '%s': the bases %s have no consistent order; each of %s must come before another",
                   cls->name, all, blocked);
}

/* Merges into cls->order, which has room. */
static gd_status merge(gd_class *cls, gd_class *const *bases, int base_count, sequence *sequences, int count)
{
    for (;;) {
        int left = longest_possible(sequences, count) - 1;
        if (!left) return GD_OK;
        const gd_class *taken = next_class(sequences, count);
        if (!taken) return no_order(cls, bases, base_count, sequences, count);
        cls->order[cls->order_count++] = taken;
        drop_head(sequences, count, taken);
    }
}

gd_status gd__linearise(gd_class *cls, gd_class *const *bases, int base_count)
{
    gd_ctx *ctx = cls->ctx;
    int count = base_count + 1;
    size_t bytes = (size_t)count * sizeof(sequence),
           base_bytes = (size_t)(base_count + 1) * sizeof(gd_class *);
    sequence *sequences = gd__alloc(ctx, bytes);
    const gd_class **base_list = gd__alloc(ctx, base_bytes);
    gd_status status = sequences && base_list ? GD_OK : GD_NOMEM;
    if (!status) {
        for (int b = 0; b < base_count; b++) {
            base_list[b] = bases[b];
            sequences[b] = (sequence){bases[b]->order, bases[b]->order_count};
        }
        sequences[base_count] = (sequence){base_list, base_count};
        cls->order_capacity = longest_possible(sequences, count);
        cls->order = gd__alloc_array(ctx, (size_t)cls->order_capacity, sizeof *cls->order);
        if (!cls->order) status = GD_NOMEM;
    }
    if (!status) {
        cls->order[cls->order_count++] = cls;
        status = merge(cls, bases, base_count, sequences, count);
    }
    gd__free(ctx, base_list, base_bytes);
    gd__free(ctx, sequences, bytes);
    return status;
}
