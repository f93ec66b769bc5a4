#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 1000

/* The words of the line that is worked on, and why it cannot be. */
static char line[LINE], missing[200];
static char *word[64];
static int words;

double peer_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int peer_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    return text && atoi(text) > 0 ? atoi(text) : 2;
}

const char *peer_word(const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 0; i < words; i++)
        if (!strncmp(word[i], name, length) && word[i][length] == '=') return word[i] + length + 1;
    return otherwise;
}

double peer_number(const char *name, double otherwise)
{
    const char *text = peer_word(name, NULL);
    return text ? strtod(text, NULL) : otherwise;
}

void *peer_missing(const char *why)
{
    (void)snprintf(missing, sizeof missing, "%s", why);
    return NULL;
}

/* The shapes of GPT-2 small: 124,439,808 elements in 148 tensors. */
static int gpt2_sizes(long *sizes)
{
    enum { D = 768 };
    static const long layer[12] = {D, D, 3 * D * D, 3 * D, D * D, D, D, D, 4 * D * D, 4 * D, 4 * D * D, D};
    int n = 0;
    sizes[n++] = 50257L * D;
    sizes[n++] = 1024L * D;
    for (int i = 0; i < 12 * 12; i++) sizes[n++] = layer[i % 12];
    sizes[n++] = D;
    sizes[n++] = D;
    return n;
}

int peer_sizes(long sizes[PEER_TENSORS])
{
    int count = (int)peer_number("count", 1);
    if (!strcmp(peer_word("shape", ""), "gpt2")) return gpt2_sizes(sizes);
    for (int i = 0; i < count && i < PEER_TENSORS; i++) sizes[i] = (long)peer_number("size", 1);
    return count < PEER_TENSORS ? count : PEER_TENSORS;
}

/* ---- memory ---- */

/* From here on the peak is that of what comes. */
static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        (void)fputs("5", f);
        (void)fclose(f);
    }
}

static long peak_kilobytes(void)
{
    char text[200];
    long peak = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(text, sizeof text, f)) (void)sscanf(text, "VmHWM: %ld", &peak);
    if (f) (void)fclose(f);
    return peak;
}

/* ---- answers ---- */

static void tell(const char *name, double value)
{
    if (value >= 0) printf(", \"%s\": %.9g", name, value);
}

static void tell_list(const char *name, const double *value, int count)
{
    if (!value) return;
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) printf("%s%.6g", i ? ", " : "", value[i]);
    printf("]");
}

/* Numbers that a kind does not report stay -1. */
static peer_result result_of(const peer_kind *kind, void *job)
{
    peer_result r = {.seconds = -1, .check = -1, .evals = -1, .solved = -1, .digits = -1};
    if (kind->result) kind->result(job, &r);
    return r;
}

static void tell_result(peer_result r)
{
    tell("check", r.check);
    tell("evals", r.evals);
    tell("solved", r.solved);
    tell("digits", r.digits);
    tell_list("each", r.each, r.count);
    tell_list("times", r.times, r.count);
    printf("}\n");
}

static void *open_job(const peer_kind *kinds, const peer_kind **kind)
{
    double begun = peer_now();
    missing[0] = 0;
    forget_peak();
    for (*kind = kinds; (*kind)->name && (words < 2 || strcmp((*kind)->name, word[1])); ++*kind) {}
    void *job = (*kind)->name ? (*kind)->open() : peer_missing("it does no such work");
    if (!job) {
        printf("{\"missing\": \"%s\"}\n", missing);
        return NULL;
    }
    if (peer_number("warm", 1) > 0) (*kind)->run(job);
    printf("{\"setup\": %.6g", peer_now() - begun);
    tell_result(result_of(*kind, job));
    return job;
}

/* Runs until the time is over, looking at the clock ever more seldom. */
static void go(const peer_kind *kind, void *job, double seconds)
{
    long runs = 0, batch = 1;
    double begun = peer_now(), took = 0;
    do {
        for (long i = 0; i < batch; i++) kind->run(job);
        runs += batch;
        took = peer_now() - begun;
        if (took < seconds / 16) batch *= 2;
    } while (took < seconds);
    peer_result r = result_of(kind, job);
    printf("{\"seconds\": %.6g, \"runs\": %ld", r.seconds >= 0 ? r.seconds : took / (double)runs, runs);
    tell_result(r);
}

static void split_line(void)
{
    words = 0;
    for (char *w = strtok(line, " \n"); w && words < 64; w = strtok(NULL, " \n")) word[words++] = w;
}

int peer_main(const char *version, const peer_kind *kinds)
{
    const peer_kind *kind = kinds;
    void *job = NULL;
    printf("{\"ready\": \"%s\"}\n", version);
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        split_line();
        if (words && !strcmp(word[0], "open")) {
            job = open_job(kinds, &kind);
        } else if (job && words > 1 && !strcmp(word[0], "go")) {
            go(kind, job, strtod(word[1], NULL));
        } else if (job && words && !strcmp(word[0], "close")) {
            kind->close(job);
            job = NULL;
            printf("{\"peak\": %ld}\n", 1024 * peak_kilobytes());
        } else {
            printf("{\"missing\": \"not understood\"}\n");
        }
        (void)fflush(stdout);
    }
    return 0;
}
