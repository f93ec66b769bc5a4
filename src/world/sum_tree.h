/* The tree of sums over microbatches.
 *
 *     level 2   (2,0)                        total = 5: microbatch 4 has no sibling at any level, and stands for
 *     level 1   (1,0)       (1,1)       (1,2)          its parents as it is
 *     level 0   0     1     2     3     4
 *
 * A process has the largest subtrees that its microbatches fill, from left to right; the next process continues with them.  The value of a
 * node is left + right, never in a different order, so that it does not matter which process computes it. */
#ifndef GD_WORLD_SUM_TREE_H
#define GD_WORLD_SUM_TREE_H

#include <stdint.h>

#define GD_MOST_SUBTREES 128 /* up and down again, 63 levels */

typedef struct gd_subtree {
    int level;
    int64_t index;
    void *sum;
} gd_subtree;

typedef struct gd_tree {
    int count;
    gd_subtree node[GD_MOST_SUBTREES];
} gd_tree;

/* left + right, and its memory: that of one operand, or elsewhere. */
typedef void *(*gd_join_fn)(void *user, void *left, void *right);

/* Appends a subtree, and joins siblings.  join NULL: sums are not computed. */
void gd__tree_push(gd_tree *tree, int64_t total, gd_subtree node, gd_join_fn join, void *user);
/* The subtrees that microbatches first ... first + count - 1 fill, without sums. */
void gd__tree_of(gd_tree *tree, int64_t total, int64_t first, int64_t count);

#endif
