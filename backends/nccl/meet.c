/* How the ranks of a world find each other before NCCL connects them.
 *
 *     mpirun -n 4 program                       through MPI: its plugin says who is there, and moves the host's bytes on
 *     GRADUS_WORLD_FILE=F, rank and size        by a file that all see: rank 0 writes NCCL's id into it
 *     neither                                   a world of one */
#define _GNU_SOURCE /* secure_getenv */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_VARIABLE "GRADUS_WORLD_FILE"

static const char *const rank_names[] = {"GRADUS_WORLD_RANK", "SLURM_PROCID", "RANK", NULL};
static const char *const size_names[] = {"GRADUS_WORLD_SIZE", "SLURM_NTASKS", "WORLD_SIZE", NULL};
static const char *const started_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE",
                                            NULL};
static const char *const local_names[] = {"GRADUS_WORLD_LOCAL_RANK",
                                          "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID",
                                          "SLURM_LOCALID",
                                          "LOCAL_RANK",
                                          NULL};

/* The number that the first of some variables has; -1: none is set, -2: it is no number. */
static int number_of(const char *const *names, const char **found)
{
    for (; *names; names++) {
        const char *text = secure_getenv(*names);
        char *end;
        if (!text || !*text) continue;
        long n = strtol(text, &end, 10);
        if (found) *found = *names;
        return *end || n < 0 || n > 1 << 20 ? -2 : (int)n;
    }
    return -1;
}

static const char *file_name(void)
{
    const char *path = secure_getenv(FILE_VARIABLE);
    return path && *path ? path : NULL;
}

double nccl_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void nccl_pause(void) { nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); }

/* ---- who is there ---- */

static gd_status by_file(gd_endpoint *e)
{
    const char *rank_name = rank_names[0], *size_name = size_names[0];
    e->rank = number_of(rank_names, &rank_name);
    e->size = number_of(size_names, &size_name);
    if (e->rank < 0 || e->size < 1)
        return e->host->fail(e->ctx, GD_VALUE,
                             "world 'nccl': with " FILE_VARIABLE " the variable %s must be a number",
                             e->rank < 0 ? rank_name : size_name);
    if (e->rank < e->size) return GD_OK;
    return e->host->fail(e->ctx, GD_VALUE, "world 'nccl': %s is %d, and %s %d", rank_name, e->rank, size_name,
                         e->size);
}

/* Alone; but not where a launcher has started others that this process would never meet. */
static gd_status alone(gd_endpoint *e, const char *why)
{
    const char *name = "";
    int started = number_of(started_names, &name);
    if (started > 1)
        return e->host->fail(
            e->ctx, GD_DEVICE,
            "world 'nccl': %s says %d processes, which meet through the MPI plugin (%s) or by a file that " FILE_VARIABLE
            " names",
            name, started, why);
    e->rank = 0;
    e->size = 1;
    return GD_OK;
}

gd_status nccl_compare_call(gd_endpoint *e, nccl_state *s)
{
    char why[160];
    if (file_name()) return by_file(e);
    if (!e->describe(e->ctx, "mpi", why, sizeof why)) return alone(e, why);
    s->under.timeout = e->timeout;
    gd_status status = e->join(&s->under, e->ctx, "mpi");
    if (status) s->under.transport = NULL;
    e->rank = s->under.rank;
    e->size = s->under.size;
    return status;
}

int nccl_gpu_of(const gd_endpoint *e, int gpus)
{
    int local = number_of(local_names, NULL);
    return (local < 0 ? e->rank : local) % (gpus > 0 ? gpus : 1);
}

/* ---- the id ---- */

static gd_status through_mpi(gd_endpoint *e, nccl_state *s, ncclUniqueId *id)
{
    const gd_transport *t = s->under.transport;
    gd_status status = GD_OK;
    for (int r = 0; r < e->size && !status; r++) {
        gd_message m = {.from = 0, .to = r, .data = id, .bytes = sizeof *id, .sends = e->rank == 0};
        if (!r || (e->rank && e->rank != r)) continue;
        double begun = nccl_seconds();
        status = t->post(&s->under, &m);
        while (!status && !m.done) {
            if (!t->test(&s->under, &m) || nccl_seconds() - begun > e->timeout)
                status = e->host->fail(e->ctx, GD_STATE,
                                       "world 'nccl': rank %d waited %g seconds for rank %d to join", e->rank,
                                       e->timeout, e->rank ? 0 : r);
            else if (!m.done)
                t->idle(&s->under, 0.001);
        }
        if (status) t->cancel(&s->under, &m);
    }
    return status;
}

/* Whole or not at all: others may look at any moment. */
static gd_status write_id(gd_endpoint *e, const char *path, const ncclUniqueId *id)
{
    char other[4096];
    int used = snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    if (used < 0 || used >= (int)sizeof other)
        return e->host->fail(e->ctx, GD_VALUE, "world 'nccl': the name in " FILE_VARIABLE " is too long");
    if (access(path, F_OK) == 0)
        return e->host->fail(e->ctx, GD_STATE,
                             "world 'nccl': the file %s of " FILE_VARIABLE
                             " is of another run: name a new one, or delete it",
                             path);
    int file = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = file >= 0 && write(file, id, sizeof *id) == (ssize_t)sizeof *id;
    if (file >= 0) written = close(file) == 0 && written;
    if (written && rename(other, path) == 0) return GD_OK;
    gd_status status = e->host->fail(e->ctx, GD_IO, "world 'nccl': %s: %s", path, strerror(errno));
    (void)unlink(other);
    return status;
}

static bool read_id(const char *path, ncclUniqueId *id)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = file >= 0 && read(file, id, sizeof *id) == (ssize_t)sizeof *id;
    if (file >= 0) (void)close(file);
    return whole;
}

static gd_status through_file(gd_endpoint *e, const char *path, ncclUniqueId *id)
{
    if (e->rank == 0) return e->size > 1 ? write_id(e, path, id) : GD_OK;
    double begun = nccl_seconds();
    while (!read_id(path, id)) {
        if (nccl_seconds() - begun > e->timeout)
            return e->host->fail(e->ctx, GD_STATE,
                                 "world 'nccl': rank %d waited %g seconds for rank 0 to write %s", e->rank,
                                 e->timeout, path);
        nccl_pause();
    }
    return GD_OK;
}

gd_status nccl_share_id(gd_endpoint *e, nccl_state *s, ncclUniqueId *id)
{
    if (s->under.transport) return through_mpi(e, s, id);
    return file_name() ? through_file(e, file_name(), id) : GD_OK;
}

void nccl_forget_id(gd_endpoint *e)
{
    if (file_name() && e->rank == 0 && e->size > 1) (void)unlink(file_name());
}
