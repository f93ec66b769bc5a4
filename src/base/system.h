/* Differences between operating systems.  Calls that only one C library has stay in this
 * folder (tools/check_portable). */
#ifndef GD_BASE_SYSTEM_H
#define GD_BASE_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#ifdef __APPLE__
#include <sys/random.h> /* getentropy */
#endif
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* Has the program more rights than its user? Then the environment is not trusted. */
static inline bool gd__is_privileged(void)
{
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#else
    return issetugid() != 0;
#endif
}

static inline const char *gd__trusted_env(const char *name)
{
    return gd__is_privileged() ? NULL : getenv(name);
}

/* The processor's features as reported by the system; 0 if unknown. */
static inline void gd__cpu_features(unsigned long out[2])
{
    out[0] = out[1] = 0;
#ifdef __linux__
    out[0] = getauxval(AT_HWCAP);
    out[1] = getauxval(AT_HWCAP2);
#endif
}

static inline const char *gd__libc_version(void)
{
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    return "unknown";
#endif
}

/* The modification time of a file. */
static inline struct timespec gd__written_at(const struct stat *s)
{
#ifdef __APPLE__
    return s->st_mtimespec;
#else
    return s->st_mtim;
#endif
}

/* The lowest address that a frame of this thread may have, if `reserve` bytes are to stay free below it; 0: not known.
 * Recursion over a user's text compares it with gd__stack_here. */
uintptr_t gd__stack_floor(size_t reserve);
/* Where the stack is now.  Not the address of a variable: sanitizers move those. */
#define gd__stack_here() ((uintptr_t)__builtin_frame_address(0))

/* Runs fn(argument), on a new thread if the stack of this one has less than `least` bytes in all (ulimit -s) and memory allows. Returns
 * its result. */
int gd__with_stack(size_t least, int (*fn)(void *argument), void *argument);

/* pthread_create with a stack large enough for a step, whatever the limit of the shell. False: no thread was created. */
bool gd__thread_start(pthread_t *thread, void *(*fn)(void *argument), void *argument);

/* A condition with timeouts that changes of the wall clock do not affect. */
void gd__patient_cond_init(pthread_cond_t *cond);
void gd__cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *lock, double seconds);

/* The file of a library or of the program that contains an address, without symbolic links.  false: unknown. */
bool gd__file_of(const void *something, char *out, size_t size);

/* Is the file complete? The loader crashes on a truncated one.  Where libraries are not ELF files: there is one. */
bool gd__is_whole_library(FILE *f);

/* Bytes of memory that this process may use: those of the machine, or fewer where a control group or the limit of its address space
 * allows fewer; 0: not known. */
uint64_t gd__memory_bytes(void);

/* A file in memory that has no name; -1 where the system has none. */
int gd__memory_file(void);
bool gd__has_memory_files(void);
/* Makes it read-only from here on. */
bool gd__freeze(int memory_file);
/* Loads a library from a descriptor, which may be closed then; as dlopen.  No other library may have the same key. */
void *gd__load_library(int fd, const uint64_t key[2]);

#endif
