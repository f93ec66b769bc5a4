#include "base/team.h"

#include <pthread.h>

struct gd_team {
    gd_ctx *ctx;
    pthread_mutex_t lock;
    int count, room;
    gd_ctx *member[];
};

static size_t team_bytes(int room) { return sizeof(gd_team) + (size_t)room * sizeof(gd_ctx *); }

/* The user's allocator need not be thread-safe. */
static void *locked_alloc(void *user, void *old, size_t old_size, size_t new_size)
{
    gd_team *team = user;
    const gd_allocator *a = &team->ctx->allocator;
    pthread_mutex_lock(&team->lock);
    void *block = a->fn(a->user, old, old_size, new_size);
    pthread_mutex_unlock(&team->lock);
    return block;
}

static void locked_warn(void *user, const char *text)
{
    gd_team *team = user;
    pthread_mutex_lock(&team->lock);
    gd_warn(team->ctx, "%s", text);
    pthread_mutex_unlock(&team->lock);
}

static gd_ctx *new_member(gd_team *team, int threads)
{
    gd_ctx *ctx = team->ctx;
    gd_options o = gd_options_default();
    o.threads = threads;
    o.pool = ctx->pool_on;
    o.compile = false;
    o.isa = ctx->isa;
    o.files = &ctx->files;
    o.vocabulary = ctx->vocabulary;
    o.warn = locked_warn;
    o.warn_user = team;
    if (ctx->allocator.fn != gd__system_alloc) o.allocator = (gd_allocator){locked_alloc, team};
    return gd_ctx_new(&o);
}

/* At least `least` members of `room`, or NULL. */
static gd_team *make_team(gd_ctx *ctx, int least, int room, int threads)
{
    gd_team *team = gd__calloc(ctx, team_bytes(room));
    if (!team) return NULL;
    team->ctx = ctx;
    team->room = room;
    pthread_mutex_init(&team->lock, NULL);
    while (team->count < room && (team->member[team->count] = new_member(team, threads))) team->count++;
    if (team->count >= least) return team;
    gd__team_free(team);
    return gd__refuse(ctx, GD_NOMEM, "out of memory: no context for a thread");
}

gd_team *gd__team_new(gd_ctx *ctx, int64_t most)
{
    return make_team(ctx, 1, most < 1 ? 1 : most < ctx->threads ? (int)most : ctx->threads, 1);
}

gd_team *gd__team_of(gd_ctx *ctx, int count)
{
    return make_team(ctx, count, count, ctx->threads > count ? ctx->threads / count : 1);
}

void gd__team_free(gd_team *team)
{
    if (!team) return;
    for (int i = 0; i < team->count; i++) gd_ctx_free(team->member[i]);
    pthread_mutex_destroy(&team->lock);
    gd__free(team->ctx, team, team_bytes(team->room));
}

int gd__team_count(const gd_team *team) { return team->count; }

gd_ctx *gd__team_member(const gd_team *team, int i) { return team->member[i]; }

void gd__team_run(gd_team *team, void (*fn)(void *arg, int64_t member), void *arg)
{
    gd__parallel(team->ctx, team->count, fn, arg);
}

gd_status gd__team_tell(gd_team *team, int member)
{
    gd_ctx *from = team->member[member];
    gd_status status = gd_fail(team->ctx, from->status, "%s", from->error);
    gd_clear_error(from);
    return status;
}
