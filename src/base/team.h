/* A team: one context per thread of a context, so that functions made of operators run in parallel.
 *
 *     gd_team *team = gd__team_new(ctx, 4);
 *     gd__team_run(team, fn, arg);            fn(arg, i) once for every member, each on one thread at a time
 *     gd__team_free(team);
 *
 * Members use the allocator of ctx. */
#ifndef GD_BASE_TEAM_H
#define GD_BASE_TEAM_H

#include "base/ctx.h"

typedef struct gd_team gd_team;

/* With as many members as ctx has threads, `most` at most, each with one; fewer if there is no memory for all.  New; NULL
 * with NOMEM. */
gd_team *gd__team_new(gd_ctx *ctx, int64_t most);
/* With that many members, which divide the threads of ctx, for the caller's own threads.  New; NULL with NOMEM. */
gd_team *gd__team_of(gd_ctx *ctx, int count);
void gd__team_free(gd_team *team); /* NULL is fine; free everything the members own first */
int gd__team_count(const gd_team *team);
gd_ctx *gd__team_member(const gd_team *team, int i); /* borrowed */
void gd__team_run(gd_team *team, void (*fn)(void *arg, int64_t member), void *arg);
/* The error of a member becomes that of the context, which is returned; the member's error is cleared. */
gd_status gd__team_tell(gd_team *team, int member);

#endif
