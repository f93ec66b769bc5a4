/* Medians; see median.h.
 *
 * The bits of a double, transformed so that they are ordered like the numbers, are read eleven at a time from the left. Each pass counts
 * the numbers per pattern, and keeps those with the pattern of the wanted number: about two passes over the data in any order, instead of log2(count)
 * for sorting. */
#include "train/data/median.h"

#include <math.h>
#include <string.h>

#define LOOK  11
#define KINDS (1 << LOOK)

static uint64_t ordered(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* The elements with the same high bits as the wanted one: its rank among them, and their number. */
static int64_t keep_alike(double *value, int64_t count, int shift, int64_t *place)
{
    int64_t times[KINDS] = {0}, kept = 0;
    for (int64_t i = 0; i < count; i++) times[ordered(value[i]) >> shift & (KINDS - 1)]++;
    unsigned kind = 0;
    while (*place >= times[kind]) *place -= times[kind++];
    for (int64_t i = 0; i < count; i++)
        if ((ordered(value[i]) >> shift & (KINDS - 1)) == kind) {
            double v = value[kept];
            value[kept++] = value[i];
            value[i] = v; /* swaps, because a later pass may need the others */
        }
    return kept;
}

/* The number that would be at `place` if all were sorted. */
static double at_place(double *value, int64_t count, int64_t place)
{
    for (int shift = 64 - LOOK; count > 1; shift -= LOOK) {
        count = keep_alike(value, count, shift > 0 ? shift : 0, &place);
        if (shift <= 0) break; /* all bits were seen: those left are equal */
    }
    return value[0];
}

double gd__median(double *value, int64_t count)
{
    double low = at_place(value, count, (count - 1) / 2), next = INFINITY;
    if (count % 2) return low;
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++) {
        below += value[i] <= low;
        if (value[i] > low && value[i] < next) next = value[i];
    }
    return (low + (below > count / 2 ? low : next)) / 2;
}
