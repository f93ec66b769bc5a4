/* Contexts: options, errors, warnings, extensions. */
#include "base/spelling.h"
#include "gradus/version.h"
#include "base/text/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOL_DEFAULT false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define POOL_DEFAULT false
#endif
#endif
#ifndef POOL_DEFAULT
#define POOL_DEFAULT true
#endif

void gd__intern_free(gd_ctx *ctx);
void gd__pool_free(gd_ctx *ctx);

const char *gd_version(void) { return GD_VERSION; }

const char *gd_status_name(gd_status status)
{
    static const char *const names[] = {
#define STATUS_NAME(name, text) #name,
        GD_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    };
    return (unsigned)status < GD_STATUS_COUNT ? names[status] : "UNKNOWN";
}

static const char *status_text(gd_status status)
{
    static const char *const texts[] = {
#define STATUS_TEXT(name, text) text,
        GD_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    };
    return (unsigned)status < GD_STATUS_COUNT ? texts[status] : "unknown status";
}

gd_options gd_options_default(void)
{
    gd_options options = {.threads = 0, .seed = 0, .pool = POOL_DEFAULT, .compile = true};
    return options;
}

static int default_threads(void)
{
    const char *text = getenv("GRADUS_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n <= 0) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 256 ? 256 : (int)n;
}

/* The compiler and its switch: option over environment over "cc". */
static gd_status take_compiler(gd_ctx *ctx, const gd_options *options)
{
    const char *compiler = options->compiler ? options->compiler : getenv("GRADUS_CC");
    if (!compiler) compiler = "cc";
    ctx->compile = options->compile && *compiler;
    ctx->compiler = gd__strdup(ctx, compiler);
    const char *cache = options->cache_dir ? options->cache_dir : getenv("GRADUS_CACHE");
    if (cache) ctx->cache_dir = gd__strdup(ctx, cache);
    return ctx->status;
}

gd_ctx *gd_ctx_new(const gd_options *given)
{
    gd_options options = given ? *given : gd_options_default();
    if (!options.allocator.fn) options.allocator.fn = gd__system_alloc;
    gd_ctx *ctx = options.allocator.fn(options.allocator.user, NULL, 0, sizeof *ctx);
    if (!ctx) return NULL;
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = options.allocator;
    ctx->files = options.files ? *options.files : gd__posix_files;
    ctx->pool_on = options.pool;
    ctx->threads = options.threads > 0 ? options.threads : default_threads();
    ctx->rng.key = options.seed;
    ctx->changes = 1;
    ctx->isa = options.isa;
    ctx->warn = options.warn;
    ctx->warn_user = options.warn_user;
    ctx->tell = options.tell;
    ctx->tell_user = options.tell_user;
    ctx->vocabulary = options.vocabulary;
    ctx->scope.mark = ctx->scope.first_marks;
    ctx->scope.mark_capacity = GD_MIN_MARKS;
    if (take_compiler(ctx, &options)) {
        gd_ctx_free(ctx);
        return NULL;
    }
    return ctx;
}

void gd_ctx_free(gd_ctx *ctx)
{
    if (!ctx) return;
    while (ctx->scope.depth || ctx->scope.lost) gd_scope_end(ctx);
    while (ctx->extensions) {
        gd_extension *extension = ctx->extensions;
        ctx->extensions = extension->next;
        if (extension->destroy) extension->destroy(ctx, extension->data);
        gd__free(ctx, extension, sizeof *extension);
    }
    gd__threads_stop(ctx);
    gd__free(ctx, ctx->scope.item, ctx->scope.capacity * sizeof *ctx->scope.item);
    gd__free(ctx, ctx->scope.room, GD_SCOPE_ROOM);
    if (ctx->scope.mark != ctx->scope.first_marks)
        gd__free(ctx, ctx->scope.mark, ctx->scope.mark_capacity * sizeof *ctx->scope.mark);
    gd__strfree(ctx, ctx->compiler);
    gd__strfree(ctx, ctx->cache_dir);
    gd__intern_free(ctx);
    gd__pool_free(ctx);
    ctx->allocator.fn(ctx->allocator.user, ctx, sizeof *ctx, 0);
}

int64_t gd_ctx_live(const gd_ctx *ctx) { return ctx ? ctx->live : 0; }

int gd_ctx_threads(const gd_ctx *ctx) { return ctx ? ctx->threads : 0; }

gd_status gd_error(const gd_ctx *ctx) { return ctx ? ctx->status : GD_ARGUMENT; }

const char *gd_error_text(const gd_ctx *ctx)
{
    if (!ctx) return "there is no context";
    return ctx->status ? ctx->error : "";
}

void gd_clear_error(gd_ctx *ctx)
{
    if (!ctx) return;
    ctx->status = GD_OK;
    ctx->error[0] = 0;
}

gd_status gd_fail(gd_ctx *ctx, gd_status status, const char *format, ...)
{
    if (!ctx || status == GD_OK) return status;
    if (ctx->status) return ctx->status; /* the first error sticks */
    ctx->status = status;
    va_list args;
    va_start(args, format);
    ctx->errors++;
    char spelled[sizeof ctx->error];
    if (format) format = gd__spell(ctx, format, spelled, sizeof spelled);
    int n = format ? gd__vformat(ctx->error, sizeof ctx->error, format, args) : 0;
    va_end(args);
    if (n <= 0) snprintf(ctx->error, sizeof ctx->error, "%s", status_text(status));
    return status;
}

gd_status gd__null(gd_ctx *ctx, const char *what)
{
    return ctx && ctx->status ? ctx->status : gd_fail(ctx, GD_ARGUMENT, "%s", what);
}

void gd__blame(gd_ctx *ctx, gd_status before, const char *what)
{
    const char *rest = strstr(ctx->error, ": ");
    if (before || !ctx->status || ctx->status == GD_NOMEM || !rest) return;
    char text[sizeof ctx->error];
    snprintf(text, sizeof text, "%.64s%.*s", what, (int)(sizeof text - 66), rest);
    memcpy(ctx->error, text, sizeof text);
}

void gd_warn(gd_ctx *ctx, const char *format, ...)
{
    if (!ctx || !format) return;
    va_list args;
    va_start(args, format);
    char spelled[sizeof ctx->warning];
    format = gd__spell(ctx, format, spelled, sizeof spelled);
    gd__vformat(ctx->warning, sizeof ctx->warning, format, args);
    va_end(args);
    ctx->warnings++;
    if (ctx->warn) ctx->warn(ctx->warn_user, ctx->warning);
}

const char *gd_warning_text(const gd_ctx *ctx) { return ctx ? ctx->warning : ""; }

int64_t gd_warning_count(const gd_ctx *ctx) { return ctx ? ctx->warnings : 0; }

void gd_ctx_observe(gd_ctx *ctx, const gd_observer *observer)
{
    if (ctx) ctx->observer = observer;
}

void gd_tell(gd_ctx *ctx, const char *format, ...)
{
    if (!ctx || !format || !ctx->tell) return;
    char text[2001];
    va_list args;
    va_start(args, format);
    gd__vformat(text, sizeof text, format, args);
    va_end(args);
    ctx->tell(ctx->tell_user, text);
}

void *gd__extension_find(gd_ctx *ctx, const void *key)
{
    for (gd_extension *e = ctx->extensions; e; e = e->next)
        if (e->key == key) return e->data;
    return NULL;
}

void *gd__extension(gd_ctx *ctx, const void *key, void *(*make)(gd_ctx *), void (*destroy)(gd_ctx *, void *))
{
    void *found = gd__extension_find(ctx, key);
    if (found) return found;
    gd_extension *extension = gd__alloc(ctx, sizeof *extension);
    if (!extension) return NULL;
    void *data = make(ctx);
    if (!data) {
        gd__free(ctx, extension, sizeof *extension);
        return NULL;
    }
    *extension = (gd_extension){.key = key, .data = data, .destroy = destroy, .next = ctx->extensions};
    ctx->extensions = extension;
    return data;
}
