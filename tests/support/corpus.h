/* What the fuzzers found, replayed by ordinary tests. */
#ifndef GD_TESTS_CORPUS_H
#define GD_TESTS_CORPUS_H

#include "gradus/base.h"

typedef struct corpus_file {
    const char *path;
    unsigned char *data; /* a zero follows */
    size_t size;
} corpus_file;

typedef void (*corpus_fn)(gd_ctx *ctx, const corpus_file *file);

/* Calls `replay` for every file of a folder; fails the test when there are fewer than `least`. */
void replay_corpus(gd_ctx *ctx, const char *folder, int least, corpus_fn replay);

#endif
