/* A peer of ./dev bench peers: a program that does a piece of work when told to, and says how long it took.
 *
 * Lines come in, one JSON object goes out for each; the first says that it is ready.
 *
 *     open KIND NAME=VALUE...    {"setup": seconds, ...}, or {"missing": "why"}     all that is done once, and a first run (warm=0: none)
 *     go SECONDS                 {"seconds": of one run, "runs": how many, ...}     as many runs as fill that time, one at least
 *     close                      {"peak": bytes of memory at a time since open}
 *
 * A peer is a table of kinds and a call of peer_main.  peer.py is the same for Python. */
#ifndef GD_PEER_H
#define GD_PEER_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run found besides the time; negative numbers are not told. */
typedef struct peer_result {
    double seconds;               /* in place of the time that the run took: without what all do alike */
    double check;                 /* a number that all peers must agree on */
    double evals, solved, digits; /* of problems */
    double *each, *times; /* evaluations and seconds to the target, a problem each, 0: not solved; borrowed */
    int count;            /* of those */
} peer_result;

typedef struct peer_kind {
    const char *name;
    void *(*open)(void); /* NULL with peer_missing called: cannot be done */
    void (*run)(void *job);
    void (*result)(void *job, peer_result *out); /* of the last run; NULL: nothing to say */
    void (*close)(void *job);
} peer_kind;

/* kinds end with one without a name. */
int peer_main(const char *version, const peer_kind *kinds);

/* While open runs: the values of its line. */
double peer_number(const char *name, double otherwise);
const char *peer_word(const char *name, const char *otherwise);
void *peer_missing(const char *why); /* NULL */
/* Sizes of tensors: those of GPT-2 (shape=gpt2), or count=COUNT of size=SIZE; how many. */
#define PEER_TENSORS 1000
int peer_sizes(long sizes[PEER_TENSORS]);

double peer_now(void); /* seconds */
int peer_threads(void);

#ifdef __cplusplus
}
#endif
#endif
