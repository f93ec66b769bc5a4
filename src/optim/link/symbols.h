/* The meanings of the letters in the formulas of links.
 *
 *     gd_symbol symbol;
 *     for (int next = 0; gd__formula_symbol(cls, &next, &symbol);) ...       u: the update that comes in
 */
#ifndef GD_OPTIM_LINK_SYMBOLS_H
#define GD_OPTIM_LINK_SYMBOLS_H

#include "gradus/link.h"

typedef struct gd_symbol {
    const char *name, *meaning;
} gd_symbol;

/* The next symbol of the formula that neither it nor a setting explains; *next begins with 0.  false: there is none left. */
bool gd__formula_symbol(const gd_link_class *cls, int *next, gd_symbol *out);

#endif
