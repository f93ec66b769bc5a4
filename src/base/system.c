/* See system.h. */
#define _GNU_SOURCE /* memfd_create */
#include "base/system.h"
#include "gradus/version.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#ifdef __ELF__
#include <link.h>
#endif

/* ---- files ---- */

/* The loader knows the program by the name it was started with: a link, or a name found in PATH. */
static ssize_t read_program(const Dl_info *self, char *out, size_t size)
{
#ifdef __linux__
    Dl_info program;
    const void *inside = (const void *)getauxval(AT_PHDR); // NOLINT: an address as a number
    if (inside && dladdr(inside, &program) && program.dli_fbase == self->dli_fbase)
        return readlink("/proc/self/exe", out, size);
#endif
    (void)self, (void)out, (void)size;
    return -1;
}

bool gd__file_of(const void *something, char *out, size_t size)
{
    Dl_info self;
    if (!dladdr(something, &self) || !self.dli_fname) return false;
    ssize_t length = read_program(&self, out, size);
    if (length > 0 && (size_t)length < size) {
        out[length] = 0;
        return true;
    }
    char *real = realpath(self.dli_fname, NULL);
    bool fits = real && strlen(real) < size;
    if (fits) memcpy(out, real, strlen(real) + 1);
    free(real);
    return fits;
}

/* ---- the stack ---- */

#define THREAD_STACK ((size_t)GD_STEP_STACK + (320 << 10)) /* bytes, at least: with callbacks */

uintptr_t gd__stack_floor(size_t reserve)
{
#if defined(__APPLE__)
    pthread_t self = pthread_self();
    return (uintptr_t)pthread_get_stackaddr_np(self) - pthread_get_stacksize_np(self) + reserve;
#elif defined(__linux__)
    pthread_attr_t about;
    void *lowest = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &about) != 0) return 0;
    int failed = pthread_attr_getstack(&about, &lowest, &size);
    (void)pthread_attr_destroy(&about);
    return failed ? 0 : (uintptr_t)lowest + reserve;
#else
    (void)reserve;
    return 0;
#endif
}

typedef struct call {
    int (*fn)(void *argument);
    void *argument;
    int result;
} call;

static void *run_call(void *user)
{
    call *c = user;
    c->result = c->fn(c->argument);
    return NULL;
}

static bool start(pthread_t *thread, size_t size, void *(*fn)(void *argument), void *argument)
{
    pthread_attr_t about;
    if (pthread_attr_init(&about) != 0) return false;
    bool runs = pthread_attr_setstacksize(&about, size) == 0 &&
                pthread_create(thread, &about, fn, argument) == 0;
    (void)pthread_attr_destroy(&about);
    return runs;
}

static bool is_small(size_t least)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && (uint64_t)limit.rlim_cur < least;
}

bool gd__thread_start(pthread_t *thread, void *(*fn)(void *argument), void *argument)
{
    /* the default of a thread is the limit of the shell */
    return is_small(THREAD_STACK) ? start(thread, THREAD_STACK, fn, argument)
                                  : pthread_create(thread, NULL, fn, argument) == 0;
}

int gd__with_stack(size_t least, int (*fn)(void *argument), void *argument)
{
    pthread_t thread;
    call c = {.fn = fn, .argument = argument};
    if (!is_small(least) || !start(&thread, 4 * least, run_call, &c)) return fn(argument);
    (void)pthread_join(thread, NULL);
    return c.result;
}

/* ---- memory ---- */

#ifdef __linux__
/* The number in a file of a control group; UINT64_MAX if there is none ("max"). */
static uint64_t group_limit(const char *folder, const char *file)
{
    char path[1024];
    unsigned long long bytes = UINT64_MAX;
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    if (fscanf(f, "%llu", &bytes) != 1) bytes = UINT64_MAX;
    (void)fclose(f);
    return bytes;
}

/* The group of this process in version 2 ("0::/a/b"), or "". */
static void find_group(char *out, size_t size)
{
    char line[900];
    FILE *f = fopen("/proc/self/cgroup", "re");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::/", 4)) {
            line[strcspn(line, "\n")] = 0;
            (void)snprintf(out, size, "%s", line + 3);
        }
    if (f) (void)fclose(f);
}

/* The least of the limits of the group and of those that it is in.  In a container the group is the root that it sees. */
static uint64_t groups_limit(void)
{
    char group[900];
    uint64_t least = group_limit("/memory", "memory.limit_in_bytes");
    find_group(group, sizeof group);
    for (;;) {
        uint64_t bytes = group_limit(group, "memory.max");
        if (bytes < least) least = bytes;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}
#else
static uint64_t groups_limit(void) { return UINT64_MAX; }
#endif

uint64_t gd__memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    uint64_t group = groups_limit();
    if (group < bytes) bytes = group;
#ifdef RLIMIT_AS /* OpenBSD has none */
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        (uint64_t)space.rlim_cur < bytes)
        bytes = (uint64_t)space.rlim_cur;
#endif
    return bytes < UINT64_MAX ? bytes : 0;
}

/* ---- waiting ---- */

void gd__patient_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
#ifndef __APPLE__
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(cond, &clock);
    pthread_condattr_destroy(&clock);
}

void gd__cond_wait_for(pthread_cond_t *cond, pthread_mutex_t *lock, double seconds)
{
    struct timespec until = {0};
#ifndef __APPLE__
    clock_gettime(CLOCK_MONOTONIC, &until);
#endif
    int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
#ifdef __APPLE__
    (void)pthread_cond_timedwait_relative_np(cond, lock, &until);
#else
    (void)pthread_cond_timedwait(cond, lock, &until);
#endif
}

/* ---- libraries ---- */

#ifdef __ELF__
#if defined(__OpenBSD__)
#define HEAD Elf_Ehdr
#define PART Elf_Phdr
#else
#define HEAD ElfW(Ehdr)
#define PART ElfW(Phdr)
#endif

bool gd__is_whole_library(FILE *f)
{
    struct stat about;
    HEAD head;
    PART part;
    if (fstat(fileno(f), &about) != 0 || fread(&head, sizeof head, 1, f) != 1) return false;
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof part) return false;
    uint64_t size = (uint64_t)about.st_size;
    bool whole = head.e_phoff < size && fseek(f, (long)head.e_phoff, SEEK_SET) == 0;
    for (int i = 0; i < head.e_phnum && whole; i++) {
        whole = fread(&part, sizeof part, 1, f) == 1;
        if (whole && part.p_type == PT_LOAD)
            whole = part.p_offset <= size && part.p_filesz <= size - part.p_offset;
    }
    return whole;
}
#else
bool gd__is_whole_library(FILE *f) { return f; }
#endif

#ifdef MFD_ALLOW_SEALING
bool gd__has_memory_files(void) { return true; }

int gd__memory_file(void) { return memfd_create("gradus", MFD_CLOEXEC | MFD_ALLOW_SEALING); }

bool gd__freeze(int memory_file)
{
    return fcntl(memory_file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}
#else
bool gd__has_memory_files(void) { return false; }

int gd__memory_file(void)
{
    errno = ENOSYS;
    return -1;
}

bool gd__freeze(int memory_file)
{
    (void)memory_file;
    return false;
}
#endif

#ifdef __FreeBSD__
void *gd__load_library(int fd, const uint64_t key[2])
{
    (void)key;
    return fdlopen(fd, RTLD_NOW | RTLD_LOCAL);
}
#else
/* By a name of the descriptor that no other library has: the loader knows libraries by their name, and would confuse a reused
 * descriptor number with an earlier library. Every bit of the key becomes a redundant path component. */
void *gd__load_library(int fd, const uint64_t key[2])
{
    char path[512];
    int n = snprintf(path, sizeof path, "/proc/self/fd");
    for (int bit = 0; bit < 128; bit++)
        n += snprintf(path + n, sizeof path - (size_t)n, key[bit / 64] >> bit % 64 & 1 ? "/." : "/");
    (void)snprintf(path + n, sizeof path - (size_t)n, "/%d", fd);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
#endif
