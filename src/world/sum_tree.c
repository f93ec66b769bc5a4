#include "world/sum_tree.h"

#include <stdbool.h>
#include <stddef.h>

static bool is_root(const gd_subtree *n, int64_t total)
{
    return n->index == 0 && total <= (int64_t)1 << n->level;
}

/* A left child that ends where the microbatches end has no right sibling. */
static bool has_no_sibling(const gd_subtree *n, int64_t total)
{
    return n->index % 2 == 0 && (n->index + 1) > (total - 1) >> n->level;
}

static bool follows_sibling(const gd_tree *tree)
{
    const gd_subtree *n = &tree->node[tree->count - 1];
    return tree->count > 1 && n->index % 2 == 1 && n[-1].level == n->level && n[-1].index == n->index - 1;
}

void gd__tree_push(gd_tree *tree, int64_t total, gd_subtree node, gd_join_fn join, void *user)
{
    tree->node[tree->count++] = node;
    for (;;) {
        gd_subtree *n = &tree->node[tree->count - 1];
        if (is_root(n, total)) return;
        if (follows_sibling(tree)) {
            tree->count--;
            if (join) n[-1].sum = join(user, n[-1].sum, n->sum);
            n--;
        } else if (!has_no_sibling(n, total)) {
            return;
        }
        n->level++;
        n->index /= 2;
    }
}

void gd__tree_of(gd_tree *tree, int64_t total, int64_t first, int64_t count)
{
    tree->count = 0;
    for (int64_t g = first; g < first + count; g++)
        gd__tree_push(tree, total, (gd_subtree){.index = g}, NULL, NULL);
}
