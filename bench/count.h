/* Instructions of cases, as callgrind counts them: times of small work depend on what else the machine does. */
#ifndef GD_BENCH_COUNT_H
#define GD_BENCH_COUNT_H

typedef struct bench_case {
    const char *name;
    void (*run)(long repeats);
} bench_case;

/* Ended by a row without a name: of small_cases.c, and of what they are compared with (small_peers.c). */
extern const bench_case bench_small_cases[], bench_small_peers[];

/* The function of the named case, of its repeats; NULL: there is no such case. */
void (*bench_count_find(const char *name))(long);
/* Runs the named case so many times; 2: there is no such case. */
int bench_count_case(const char *name, long repeats);

/* Instructions per repeat of a case, run by this program under valgrind; 0: it cannot be counted here. */
double bench_instructions(const char *name, long repeats);

/* Which of the peers this program was built without, separated by commas; "": none. */
const char *bench_missing_peers(void);

#endif
