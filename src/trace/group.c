/* Which calls of a body run together. */
#include "trace/tape.h"

#define LEAST_TAPED 2

static void add_unit(gd_replay *p, int first, int count, gd_tape *tape)
{
    gd_unit *last = p->units ? &p->unit[p->units - 1] : NULL;
    if (last && !last->tape && !tape) /* calls behind calls */
        last->count += count;
    else
        p->unit[p->units++] = (gd_unit){first, count, tape};
}

void gd__replay_group(gd_replay *p)
{
    for (int i = 0; i < p->bodies;) {
        int n = 0;
        while (i + n < p->bodies && gd__tape_takes(p, &p->r->call[p->body[i + n]])) n++;
        gd_tape *tape = n >= LEAST_TAPED ? gd__tape_new(p, i, n) : NULL;
        add_unit(p, i, n ? n : 1, tape);
        i += n ? n : 1;
    }
}
