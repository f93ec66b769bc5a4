/* Kernels for passes: built in, or compiled by the system's C compiler and loaded.
 *
 *   gd__kernel_for --> built in? --> compiled before, in this context? --> on disk? --> compile, load, keep
 *
 * No result depends on this file: a failure leaves a note for gd__kernel_trouble, and the pass is interpreted.
 * Every kernel must agree with the interpreter on a sample before it is used, so that neither a hash collision
 * nor a compiler that changes arithmetic can change a result. */
#include "base/vmath.h"
#include "base/text/number.h"
#include "tensor/item.h"
#include "program/element.h"
#include "base/kernel_cache.h"
#include "base/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#define PATIENCE      20            /* seconds for one compilation */
#define NUMBERED      "gd_kernel%d" /* functions of a library with several */
#define MOST_FAILURES 4 /* failed sources after which a compiler that never succeeded is not used again */

extern char **environ;

typedef struct kernel {
    uint64_t hash;
    char *source;
    void *handle; /* NULL, as fn: the compiler failed for it */
    gd_kernel_fn fn;
} kernel;

/* The compiler of a context, and its kernels. */
typedef struct kernels {
    kernel *item;
    size_t count, capacity;
    bool looked;             /* for the compiler */
    bool broken;             /* do not try again */
    int failures;            /* -1: it has compiled something */
    char compiler[PATH_MAX]; /* file to run */
    gd_digest identity;      /* of compiler, flags and CPU */
    char trouble[512];
} kernels;

static const char kernels_key;

static void *kernels_make(gd_ctx *ctx) { return gd__calloc(ctx, sizeof(kernels)); }

static void kernels_destroy(gd_ctx *ctx, void *data)
{
    kernels *all = data;
    for (size_t i = 0; i < all->count; i++) {
        gd__strfree(ctx, all->item[i].source);
        if (all->item[i].handle) dlclose(all->item[i].handle);
    }
    gd__free(ctx, all->item, all->capacity * sizeof *all->item);
    gd__free(ctx, all, sizeof *all);
}

GD_PRINTF(2, 3) static bool note(kernels *all, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gd__vformat(all->trouble, sizeof all->trouble, format, args);
    va_end(args);
    return false;
}

const char *gd__kernel_trouble(gd_ctx *ctx)
{
    const kernels *all = gd__extension_find(ctx, &kernels_key);
    return all ? all->trouble : "";
}

/* ---- comparison with the interpreter ---- */

#define SAMPLE 53 /* three times sixteen lanes and a rest */

typedef struct sample {
    _Alignas(64) char data[GD_MAX_ARRAYS][SAMPLE * sizeof(double)];
    char *array[GD_MAX_ARRAYS];
    double out[GD_MAX_REDUCTIONS];
} sample;

/* Numbers between -2 and 2, and some that are special. */
static double sample_value(uint64_t *state)
{
    static const double special[] = {0, -0.0, 1, 1e30, -1e-30, 1e-40, INFINITY, NAN};
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = *state >> 33;
    return bits % 16 ? (double)bits / 536870912.0 - 2 : special[bits / 16 % 8];
}

static void fill_sample(const gd_program *p, sample *s)
{
    uint64_t state = 1;
    for (int k = 0; k < p->arrays; k++) {
        s->array[k] = s->data[k];
        if (p->array[k].dtype == GD_U8) { /* any bytes will do, except for the scale */
            for (int i = 0; i < SAMPLE * (int)sizeof(double); i++) s->data[k][i] = (char)(37 * i + k);
            s->array[k] += sizeof(float);
            gd__set_float_item(s->data[k], GD_F32, 0, 0.75 + k);
            continue;
        }
        for (int i = 0; i < SAMPLE; i++)
            gd__set_float_item(s->data[k], p->array[k].dtype, i, sample_value(&state));
    }
    memset(s->out, 0, sizeof s->out);
}

/* The same number; all NaNs are equal. */
static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

static bool agrees(const gd_program *p, const gd_pass *pass, gd_kernel_fn fn)
{
    sample ours, theirs;
    double scalar[GD_MAX_UNIFORMS + GD_MAX_INSTRS + 3 * GD_MAX_ARRAYS];
    uint64_t state = 2;
    for (int k = 0; k < pass->used_count; k++) scalar[k] = sample_value(&state);
    for (int k = 0; k < pass->chances; k++) /* arrays may share a key */
        scalar[gd__chances_at(pass) + k] = (p->array[pass->chance[k]].chance % 39 + 1) / 40.0;
    fill_sample(p, &ours);
    fill_sample(p, &theirs);
    gd__interpret(p, pass, 0, SAMPLE, ours.array, scalar, ours.out);
    fn(0, SAMPLE, theirs.array, scalar, theirs.out);
    for (int r = 0; r < pass->reductions; r++)
        if (!same_number(ours.out[r], theirs.out[r])) return false;
    for (int k = 0; k < p->arrays; k++) {
        bool coded = p->array[k].dtype == GD_U8;
        if (coded && memcmp(ours.data[k], theirs.data[k], sizeof ours.data[k])) return false;
        for (int i = 0; i < SAMPLE && !coded; i++)
            if (!same_number(gd__float_item(ours.data[k], p->array[k].dtype, i),
                             gd__float_item(theirs.data[k], p->array[k].dtype, i)))
                return false;
    }
    return true;
}

/* ---- built in ---- */

static const gd_builtin_table *builtins_for(const gd_ctx *ctx)
{
    return ctx->isa && !strcmp(ctx->isa, "none") ? NULL : GD_BY_ISA(ctx, gd__builtin);
}

static gd_kernel_fn find_builtin(const gd_ctx *ctx, uint64_t hash)
{
    const gd_builtin_table *table = builtins_for(ctx);
    size_t low = 0, high = table ? table->count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->item[middle].hash == hash) return table->item[middle].fn;
        if (table->item[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- the compiler ---- */

static const char *const flags[] = {
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-w",
    "-pipe",
    "-nostdlib",
    "-std=gnu11",
#ifdef __x86_64__
    "-mprefer-vector-width=512", /* as built-in programs */
#endif
};
#define FLAGS (sizeof flags / sizeof *flags)
/* The compiler queries the processor itself, so it does not know of an emulator around this process (valgrind) or of a system that does
 * not save these registers. */
#define NARROW "-mno-avx512f"

static bool is_narrow(void)
{
#ifdef __x86_64__
    return !__builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

/* The processor's features that -march=native depends on. */
static void add_cpu(gd_digest *d)
{
    struct utsname system;
    if (uname(&system) == 0) gd__digest_text(d, system.machine);
    unsigned long capabilities[2];
    gd__cpu_features(capabilities);
    gd__digest_add(d, capabilities, sizeof capabilities);
#if defined(__x86_64__) || defined(__i386__)
    static const unsigned leaf[] = {0, 1, 7, 0xD, 0x80000001, 0x80000002, 0x80000003, 0x80000004};
    for (size_t i = 0; i < sizeof leaf / sizeof *leaf; i++) {
        unsigned r[4] = {0};
        __get_cpuid_count(leaf[i], leaf[i] == 0xD, &r[0], &r[1], &r[2], &r[3]);
        if (leaf[i] == 1) r[1] = 0; /* holds the number of the core */
        gd__digest_add(d, r, sizeof r);
    }
    gd__digest_add(d, &(int){__builtin_cpu_supports("avx512f")},
                   sizeof(int)); /* also needs the system's support */
#endif
}

static bool is_program(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

/* Finds a program as the shell would, but only in folders named in full. */
static bool find_program(const char *name, char path[PATH_MAX])
{
    if (strchr(name, '/')) {
        snprintf(path, PATH_MAX, "%s", name);
        return is_program(path);
    }
    const char *at = getenv("PATH");
    if (!at) at = "/usr/local/bin:/usr/bin:/bin";
    while (*at) {
        size_t length = strcspn(at, ":");
        int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, at, name);
        if (*at == '/' && n < PATH_MAX && is_program(path)) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* Once a context: the compiler's file, and what its output depends on. */
static bool find_compiler(const gd_ctx *ctx, kernels *all)
{
    struct stat s;
    char real[PATH_MAX];
    if (all->looked) return !all->broken;
    all->looked = all->broken = true;
    if (gd__is_privileged()) return note(all, "not compiling in a program with raised privileges");
    if (!gd__has_memory_files()) return note(all, "not compiling: this system has no files in memory");
    if (!find_program(ctx->compiler, all->compiler))
        return note(all, "compiler '%s' not found", ctx->compiler);
    if (!realpath(all->compiler, real) || stat(real, &s))
        return note(all, "compiler '%s' not readable", ctx->compiler);
    gd__digest_text(&all->identity, real);
    struct timespec written = gd__written_at(&s);
    int64_t facts[] = {(int64_t)s.st_dev, (int64_t)s.st_ino, s.st_size, written.tv_sec, written.tv_nsec};
    gd__digest_add(&all->identity, facts, sizeof facts);
    for (size_t i = 0; i < FLAGS; i++) gd__digest_text(&all->identity, flags[i]);
    if (is_narrow()) gd__digest_text(&all->identity, NARROW);
    add_cpu(&all->identity);
    all->broken = false;
    return true;
}

/* Starts a program in its own process group, without input and output. */
static int start(const char *path, char *const *arguments, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, standard;
    if (posix_spawn_file_actions_init(&files)) return ENOMEM;
    if (posix_spawnattr_init(&attributes)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGCHLD);
    sigaddset(&standard, SIGPIPE);
    int error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    if (!error) error = posix_spawn(pid, path, &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Waits for the process; NULL on success, else what happened. If the host program reaps or ignores children, there is no
 * status: then the output decides. */
static const char *wait_for(pid_t pid)
{
    struct timespec from, now, pause = {.tv_nsec = 500000};
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (;;) {
        int status;
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : "failed";
        if (done < 0 && errno != EINTR) return NULL;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - from.tv_sec > PATIENCE) break;
        nanosleep(&pause, NULL);
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    return "took too long";
}

static bool run_compiler(kernels *all, char *source, char *object)
{
    char *arguments[FLAGS + 8] = {all->compiler};
    size_t n = 1;
    for (size_t i = 0; i < FLAGS; i++) arguments[n++] = (char *)(uintptr_t)flags[i];
    if (is_narrow()) arguments[n++] = (char *)(uintptr_t)NARROW;
    arguments[n++] = (char[]){"-o"};
    arguments[n++] = object;
    arguments[n++] = source;
    arguments[n++] = (char[]){"-lm"};
    arguments[n++] = (char[]){"-lc"};
    pid_t pid;
    int error = start(all->compiler, arguments, &pid);
    const char *wrong = error ? strerror(error) : wait_for(pid);
    return wrong ? note(all, "compiler '%s': %s", all->compiler, wrong) : true;
}

/* ---- making and loading ---- */

/* A kernel to be made. */
typedef struct order {
    gd_ctx *ctx;
    kernels *all;
    const gd_program *p; /* NULL: source of the caller, which compares results itself */
    const gd_pass *pass;
    gd_kernel_wish **wish; /* several, numbered; NULL: one */
    int wishes;
    bool stored;        /* only what is on disk */
    bool failed;        /* the compiler, for this source */
    const char *source; /* prelude included */
    gd_digest key;      /* of the source and all that the result depends on */
    char name[48];      /* of the file */
    void *handle;
    gd_kernel_fn fn;
} order;

/* All functions of a library with several, each compared with the interpreter. */
static bool find_all(order *o)
{
    bool found = true;
    for (int i = 0; i < o->wishes && found; i++) {
        char name[24];
        snprintf(name, sizeof name, NUMBERED, i);
        void *symbol = dlsym(o->handle, name);
        gd_kernel_fn fn;
        memcpy(&fn, &symbol, sizeof fn);
        found = symbol && agrees(o->wish[i]->p, o->wish[i]->pass, fn);
        if (found) o->wish[i]->fn = fn;
    }
    for (int i = 0; i < o->wishes && !found; i++) o->wish[i]->fn = NULL;
    return found;
}

static bool find_one(order *o)
{
    void *symbol = dlsym(o->handle, "gd_kernel");
    memcpy(&o->fn, &symbol, sizeof symbol);
    return symbol && (!o->p || agrees(o->p, o->pass, o->fn));
}

/* Loads the checked copy of a file; false if there is no valid one. */
static bool load(order *o, const gd_cache *cache, const char *name)
{
    int copy = gd__cache_copy(cache, name, &o->key);
    if (copy < 0) return note(o->all, "cannot read back %s/%s", cache->path, name);
    o->handle = gd__load_library(copy, (uint64_t[]){o->key.a, o->key.b});
    close(copy); /* loaded code stays */
    if (!o->handle) {
        const char *why = dlerror();
        return note(o->all, "cannot load a compiled program: %s", why ? why : "?");
    }
    if (o->wish ? find_all(o) : find_one(o)) return true;
    dlclose(o->handle);
    o->handle = NULL;
    return note(o->all, "compiler '%s' does not keep to IEEE arithmetic: its program computes something else",
                o->all->compiler);
}

static bool write_source(order *o, int fd, const char *path)
{
    size_t left = strlen(o->source);
    const char *at = o->source;
    while (left) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += n;
        left -= (size_t)n;
    }
    return left ? note(o->all, "cannot write %s: %s", path, strerror(errno)) : true;
}

/* Compiles in the folder; gives the name of the result there, "" if there is none.  A separate function, so that its paths are off the
 * stack when the result is compared with the interpreter, which takes most of GD_STEP_STACK. */
__attribute__((noinline)) static bool compile_in(order *o, const gd_cache *cache, char name[NAME_MAX + 1])
{
    char source[GD_PATH + 16], object[GD_PATH + 24];
    int held = gd__cache_temporary(cache, ".c", source);
    if (held < 0) return note(o->all, "cannot write in %s: %s", cache->path, strerror(errno));
    snprintf(object, sizeof object, "%.*s.so", (int)strlen(source) - 2, source);
    snprintf(name, NAME_MAX + 1, "%s", strrchr(object, '/') + 1);
    bool done = write_source(o, held, source);
    if (done && !run_compiler(o->all, source, object)) {
        o->failed = true;
        done = false;
    }
    if (done && !gd__cache_seal(cache, name, &o->key)) done = note(o->all, "cannot read back %s", object);
    unlink(source);
    close(held);
    return done;
}

/* Loads the compiled object and only then renames it in the folder. */
static bool make(order *o, const gd_cache *cache)
{
    char name[NAME_MAX + 1] = "";
    bool done = compile_in(o, cache, name) && load(o, cache, name);
    if (*name && (!done || renameat(cache->fd, name, cache->fd, o->name))) unlinkat(cache->fd, name, 0);
    return done;
}

/* From disk, or compiled there; without a safe folder, compiled in a temporary one. */
static bool obtain(order *o)
{
    gd_cache cache;
    if (gd__cache_open(o->ctx, &cache)) {
        bool found = load(o, &cache, o->name), made = found || (!o->stored && make(o, &cache));
        if (made && !found) gd__cache_trim(&cache);
        gd__cache_close(&cache);
        if (made || o->failed) return made;
    }
    if (o->stored) return false;
    if (!gd__cache_open_passing(&cache)) return note(o->all, "no folder to compile in");
    bool made = make(o, &cache);
    gd__cache_close(&cache);
    return made;
}

/* ---- kernels of a context ---- */

static kernel *find_compiled(kernels *all, uint64_t hash, const char *source)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->item[i].hash == hash && all->item[i].source && !strcmp(all->item[i].source, source))
            return &all->item[i];
    return NULL;
}

static bool make_room(gd_ctx *ctx, kernels *all, size_t more)
{
    if (all->count + more <= all->capacity) return true;
    size_t capacity = 2 * all->capacity + more + 7, size = sizeof *all->item;
    kernel *item = gd__realloc(ctx, all->item, all->capacity * size, capacity * size);
    if (!item) return false;
    all->item = item;
    all->capacity = capacity;
    return true;
}

static void name_file(order *o)
{
    o->key = o->all->identity;
    gd__digest_text(&o->key, o->source);
    snprintf(o->name, sizeof o->name, "gd-%016llx%016llx.so", (unsigned long long)o->key.a,
             (unsigned long long)o->key.b);
}

/* Consumes the source. A compiler that fails for one source may succeed for others, so a failure affects that kernel only; a compiler
 * that never succeeded is given up. */
static void keep(order *o, uint64_t hash, char *source, bool done)
{
    kernels *all = o->all;
    if (done)
        all->failures = -1;
    else if (all->failures >= 0 && ++all->failures == MOST_FAILURES)
        all->broken = true;
    all->item[all->count++] = (kernel){.hash = hash, .source = source, .handle = o->handle, .fn = o->fn};
}

static gd_kernel_fn compile(gd_ctx *ctx, kernels *all, const gd_program *p, const gd_pass *pass,
                            uint64_t hash, const char *body, bool stored)
{
    if (!find_compiler(ctx, all)) return NULL;
    gd_text source = {.ctx = ctx};
    gd__emit_c_prelude(&(gd_kernel_wish){p, pass, NULL}, 1, &source);
    gd__text_put(&source, "%s", body);
    char *copy = gd__strdup(ctx, body);
    order o = {.ctx = ctx, .all = all, .p = p, .pass = pass, .source = source.data, .stored = stored};
    bool able = !source.failed && copy && make_room(ctx, all, 1), done = false;
    if (able) {
        name_file(&o);
        all->trouble[0] = 0;
        done = obtain(&o);
        if (done) all->trouble[0] = 0;
    }
    gd__text_free(&source);
    if (done || (able && !stored))
        keep(&o, hash, copy, done);
    else
        gd__strfree(ctx, copy);
    return done ? o.fn : NULL;
}

static gd_kernel_fn find_or_compile(gd_ctx *ctx, const gd_program *p, const gd_pass *pass, uint64_t hash,
                                    bool stored)
{
    kernels *all = gd__extension(ctx, &kernels_key, kernels_make, kernels_destroy);
    if (!all) return NULL;
    if (!ctx->compile) {
        note(all, "compiling is switched off");
        return NULL;
    }
    gd_text body = {.ctx = ctx};
    gd_kernel_fn fn = NULL;
    gd__emit_c(p, pass, "gd_kernel", &body);
    if (!body.failed) {
        kernel *found = find_compiled(all, hash, body.data);
        fn = found ? found->fn : compile(ctx, all, p, pass, hash, body.data, stored);
        if (found && !fn && !all->trouble[0]) (void)note(all, "compiler '%s' failed before", all->compiler);
    }
    gd__text_free(&body);
    return fn;
}

static void *compile_text(gd_ctx *ctx, kernels *all, uint64_t hash, const char *source, bool stored)
{
    order o = {.ctx = ctx, .all = all, .source = source, .stored = stored};
    char *copy = find_compiler(ctx, all) ? gd__strdup(ctx, source) : NULL;
    bool able = copy && make_room(ctx, all, 1), done = false;
    if (able) {
        name_file(&o);
        done = obtain(&o);
    }
    if (done || o.failed)
        keep(&o, hash, copy, done);
    else
        gd__strfree(ctx, copy);
    void *symbol = NULL;
    if (done) memcpy(&symbol, &o.fn, sizeof symbol);
    return symbol;
}

void *gd__compiled_text(gd_ctx *ctx, const char *source, bool stored)
{
    gd_status before = ctx->status;
    kernels *all = ctx->compile ? gd__extension(ctx, &kernels_key, kernels_make, kernels_destroy) : NULL;
    void *symbol = NULL;
    if (all) {
        gd_digest d = {0};
        gd__digest_text(&d, source);
        kernel *found = find_compiled(all, d.a, source);
        if (found)
            memcpy(&symbol, &found->fn, sizeof symbol);
        else
            symbol = compile_text(ctx, all, d.a, source, stored);
    }
    if (!before && ctx->status) gd_clear_error(ctx);
    return symbol;
}

static gd_kernel_fn kernel_of(gd_ctx *ctx, const gd_program *p, const gd_pass *pass, gd_executor *how,
                              bool stored)
{
    uint64_t hash = gd__program_hash(p, pass);
    gd_kernel_fn fn = find_builtin(ctx, hash);
    *how = GD_EXEC_BUILT_IN;
    if (fn && agrees(p, pass, fn)) return fn;
    gd_status before = ctx->status;
    fn = find_or_compile(ctx, p, pass, hash, stored);
    if (!before && ctx->status) gd_clear_error(ctx); /* no memory: then interpreted */
    *how = fn ? GD_EXEC_COMPILED : GD_EXEC_INTERPRETER;
    return fn;
}

gd_kernel_fn gd__kernel_for(gd_ctx *ctx, const gd_program *p, const gd_pass *pass, gd_executor *how)
{
    return kernel_of(ctx, p, pass, how, false);
}

/* ---- several together ---- */

/* Is it there without a compiler? */
static bool is_known(gd_ctx *ctx, kernels *all, gd_kernel_wish *w)
{
    uint64_t hash = gd__program_hash(w->p, w->pass);
    gd_text body = {.ctx = ctx};
    w->fn = find_builtin(ctx, hash);
    if (w->fn && agrees(w->p, w->pass, w->fn)) return true;
    gd__emit_c(w->p, w->pass, "gd_kernel", &body);
    const kernel *found = body.failed ? NULL : find_compiled(all, hash, body.data);
    w->fn = found ? found->fn : NULL;
    gd__text_free(&body);
    return found != NULL;
}

/* The same as if each had been compiled alone; the library is that of the first. */
static void keep_all(order *o)
{
    for (int i = 0; i < o->wishes; i++) {
        const gd_kernel_wish *w = o->wish[i];
        gd_text body = {.ctx = o->ctx};
        gd__emit_c(w->p, w->pass, "gd_kernel", &body);
        char *copy = body.failed ? NULL : gd__strdup(o->ctx, body.data); /* NULL: it is not found again */
        gd__text_free(&body);
        o->all->item[o->all->count++] = (kernel){gd__program_hash(w->p, w->pass), copy, i ? NULL : o->handle,
                                                 w->fn};
    }
}

static bool compile_all(gd_ctx *ctx, kernels *all, gd_kernel_wish **wish, int count, bool stored)
{
    gd_kernel_wish list[GD_KERNELS_TOGETHER];
    gd_text source = {.ctx = ctx};
    for (int i = 0; i < count; i++) list[i] = *wish[i];
    gd__emit_c_prelude(list, count, &source);
    for (int i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, NUMBERED, i);
        gd__emit_c(list[i].p, list[i].pass, name, &source);
    }
    order o = {
        .ctx = ctx, .all = all, .wish = wish, .wishes = count, .source = source.data, .stored = stored};
    bool done = false;
    if (!source.failed && make_room(ctx, all, (size_t)count)) {
        name_file(&o);
        done = obtain(&o);
    }
    if (done) {
        keep_all(&o);
        all->failures = -1;
        all->trouble[0] = 0;
    }
    gd__text_free(&source);
    return done;
}

void gd__kernels_for(gd_ctx *ctx, gd_kernel_wish *wish, int count, bool stored)
{
    gd_status before = ctx->status;
    kernels *all = ctx->compile ? gd__extension(ctx, &kernels_key, kernels_make, kernels_destroy) : NULL;
    gd_kernel_wish *missing[GD_KERNELS_TOGETHER];
    int missed = 0;
    bool able = all && count <= GD_KERNELS_TOGETHER && find_compiler(ctx, all);
    for (int i = 0; i < count; i++) {
        wish[i].fn = NULL;
        if (able && !is_known(ctx, all, &wish[i])) missing[missed++] = &wish[i];
    }
    bool done = missed > 1 && compile_all(ctx, all, missing, missed, stored);
    gd_executor how;
    for (int i = 0; i < (able ? missed : count) && !done; i++) {
        gd_kernel_wish *w = able ? missing[i] : &wish[i];
        w->fn = kernel_of(ctx, w->p, w->pass, &how, stored);
    }
    if (!before && ctx->status) gd_clear_error(ctx);
}
