/* The inside of a world.
 *
 * A collective is a gd_exchange that goes through stages; in each it posts messages and continues when all are done:
 *
 *     QUEUED waits for its turn
 *     FINGERPRINT      every rank sends its sheet (a description of the call) to all, in large worlds to rank 0
 *     VERDICT   ranks with all sheets compare them, rank 0 of a large world replies to all: continue, or the ranks that differ
 *     COUNT     only if ranks are at different collectives: how many each has started
 *     FIRST data are sent (slices of sums to their owners, pieces, down the tree of a broadcast)
 *     SECOND    finished slices go to all; a broadcast goes further down
 *
 * A few numbers are sent on the sheets themselves, without further messages: small sums, gathers and broadcasts take one message between
 * each pair.
 *
 * All memory is there before the fingerprint, and a rank that cannot take part reports it on its sheet, so that no rank waits for it forever.
 *
 * A rank that has failed elsewhere reports it instead of the next collective, the others may have started more meanwhile:
 *
 *     others    [ 7 all_reduce ][ 8 all_reduce ][ 9 all_reduce ]
 *     rank 2    [ 7 I failed   ]                                   all count: 10, 10, 8; rank 2 says the same at 8 and 9
 *
 * and all continue with number 10.  Starting a collective before the caller has waited for 7 is an error. */
#ifndef GD_WORLD_WORLD_INTERNAL_H
#define GD_WORLD_WORLD_INTERNAL_H

#include "gradus/world.h"
#include "world/transport.h"
#include "world/sum_tree.h"

#define GD_FINGERPRINT_ALL 64  /* ranks up to which sheets go to all */
#define GD_PAYLOAD         512 /* bytes that travel on a sheet */

/* The description of a rank's call. */
typedef struct gd_sheet {
    int64_t size[GD_MAX_DIMS];
    int64_t total; /* microbatches */
    int64_t cuts;  /* a hash of them */
    int32_t kind, dtype, ndim, root, how;
    int32_t failed; /* gd_status: it cannot take part, `why` */
    int32_t fills;  /* it has not even started this one, others have */
    char name[120]; /* of its tensors */
    char why[400];
    char machine[48]; /* of exact sums: the device that computes */
    char payload[GD_PAYLOAD];
} gd_sheet;

typedef struct gd_verdict {
    int32_t status;
    int32_t uneven; /* ranks are at different collectives: they count */
    char text[504];
} gd_verdict;

typedef enum gd_stage {
    GD_QUEUED,
    GD_FINGERPRINT,
    GD_VERDICT,
    GD_COUNT,
    GD_FIRST,
    GD_SECOND,
    GD_FINISHED
} gd_stage;

struct gd_exchange {
    gd_world *world;
    gd_exchange *next; /* started after it */
    int64_t op;
    gd_stage stage;
    gd_status status; /* its final status */
    bool spare;       /* part of the world */
    int64_t end;      /* of a filler: it replaces numbers op ... end - 1 */
    bool small;       /* its data are on the sheets */
    gd_collective what;
    gd_sheet mine, *sheet; /* all of them, at rank 0 */
    gd_verdict verdict;
    gd_message *message;
    int messages, room;
    /* of the data */
    gd_device *at;       /* the device of messages: the CPU, or a device that the transport reaches */
    gd_tensor *host;     /* `tensor` in row-major order there: itself, or a copy */
    gd_tensor *host_out; /* the same of `out` */
    gd_tensor *staging;  /* for a result with its elements in a different order or memory */
    gd_tree own;         /* sums of this rank's microbatches, gd_tensor */
    gd_tensor *inbox;    /* slices of the others' sums */
    gd_dtype partial;    /* dtype of partial sums */
};

struct gd_world {
    gd_ctx *ctx;
    gd_endpoint end;
    char name[32];
    double timeout;
    int64_t ops;
    gd_exchange *first, **last; /* under way */
    gd_exchange *idle;          /* unused, for the next collectives; linked by `next` */
    int reserved;               /* how many at most */
    gd_exchange *spare;         /* preallocated to report that there is no memory */
    gd_exchange *filler;        /* for those that others have started and this rank has not; of the world */
    gd_exchange *unseen;        /* ended because of such a rank, and not waited for yet */
    double said;                /* the time of its last report that it waits */
    bool failed;                /* the last collective ended with an error that all ranks have; */
    uint64_t told;              /* its number in the context */
    int optimizers;             /* that were distributed over it so far */
    bool lent;                  /* to a function of gd_world_run, which does not end it */
    bool over;                  /* given up */
    char why[512];              /* it was */
};

#define GD_MICROBATCHES_WAIT 4 /* each more saves passes over memory, and has a copy of all numbers */

struct gd_microbatches {
    gd_world *world;
    gd_dtype dtype, partial;
    gd_device *at;    /* device of the sums */
    gd_status failed; /* adding */
    int ndim;
    int64_t size[GD_MAX_DIMS];
    int64_t total, first, count, added;
    gd_tree tree;                             /* of gd_tensor */
    gd_tensor *waiting[GD_MICROBATCHES_WAIT]; /* the last added ones: joined with the tree in one pass */
    int waits;
};

/* ---- world.c ---- */

/* A world over an open endpoint; closes the endpoint on failure. */
gd_world *gd__world_over(const gd_endpoint *end, const char *name, const gd_world_options *options);
/* Calls the function of a rank: while it runs the world cannot be freed. */
gd_status gd__world_lend(gd_world *world, gd_world_fn fn, void *user);
/* The device of messages for tensors of a device: itself, or the CPU. */
gd_device *gd__world_place(gd_world *world, gd_device *device);
/* Do sheets go to all ranks? */
bool gd__all_compare(const gd_world *world);
/* Which of `total` are a rank's. */
void gd__share(int rank, int size, int64_t total, int64_t *first, int64_t *count);
int gd__sharer(int size, int64_t total, int64_t index); /* the rank that has one of them */

/* ---- world_threads.c ---- */

gd_status gd__run_threads(gd_ctx *ctx, int count, const char *name, const gd_world_options *options,
                          gd_world_fn fn, void *user);
extern const gd_transport gd__transport_self;

/* ---- fingerprint.c ---- */

/* Have all ranks this text, of at most 110 bytes?  MISMATCH: "WHO: rank 2 brings ...".  world NULL: yes. */
GD_NODISCARD gd_status gd__world_same(gd_world *world, const char *who, const char *text);
const char *gd__collective_name(int kind);
void gd__sheet_fill(gd_exchange *work);
/* Fills the verdict from the sheets of all. */
void gd__fingerprint_judge(gd_exchange *work);

/* ---- collectives.c: from the fingerprint to the end ---- */

/* Checks the arguments and allocates all memory. */
gd_status gd__exchange_prepare(gd_exchange *work);
/* Posts the messages of a stage (FIRST, SECOND), after processing the data of the previous stage. */
gd_status gd__exchange_post(gd_exchange *work);
/* Writes the result to its destination. */
gd_status gd__exchange_deliver(gd_exchange *work);
void gd__exchange_drop_data(gd_exchange *work);
/* Starts a collective and waits for it. */
gd_status gd__world_call(gd_world *world, const gd_collective *what);

/* The bits (1, 2) that any rank has, united over all ranks: for joint decisions, at the same place in the program. world NULL: its own. */
int gd__world_any(gd_ctx *ctx, gd_world *world, int bits);
/* Broadcasts a number of the first rank. */
double gd__world_first(gd_ctx *ctx, gd_world *world, double number);

/* ---- exchange.c ---- */

gd_exchange *gd__exchange_new(gd_world *world);
void gd__exchange_free(gd_exchange *work);
/* From now on so many collectives at a time, with tensors on the device of messages and without sums, can be started without allocations.
 * NOMEM, with fewer; 0 always succeeds. */
gd_status gd__world_reserve(gd_world *world, int count);
/* The result of a transport: after a failure ranks are at different stages of a collective, and none can continue. */
gd_status gd__transport_status(gd_exchange *work, gd_status status);
/* Advances pending collectives: is this one complete? */
bool gd__exchange_is_over(gd_exchange *work);
gd_status gd__message(gd_exchange *work, int peer, bool sends, int part, void *data, size_t bytes);

/* ---- microbatch_sums.c ---- */

/* The dtype that sums of a dtype are made in; GD_DTYPE_COUNT: there are none. */
gd_dtype gd__partial_dtype(gd_dtype dtype);
/* out[i] = a[i] + b[i], all in row-major order, where they are; out may be one of them. */
gd_status gd__add_partial(gd_tensor *out, gd_tensor *a, gd_tensor *b);
const char *gd__isa_of(gd_ctx *ctx); /* the instruction set that it computes with */
/* A copy in row-major order on a device, owned by the caller. */
gd_tensor *gd__copy_at(gd_device *device, gd_tensor *t, gd_dtype dtype);
/* As gd_microbatches_new, for values of a dtype on a device. */
gd_microbatches *gd__microbatches_of(gd_world *world, gd_dtype dtype, gd_device *device, int ndim,
                                     const int64_t *size, int64_t total);
/* As gd_microbatches_add, of a value that is the caller's own: of the shape, in row-major order where sums are made (`at`) and of the
 * dtype of partial sums.  Consumed. */
GD_NODISCARD gd_status gd__microbatches_take(gd_microbatches *microbatches, gd_tensor *value);
/* Joins waiting microbatches. */
gd_status gd__microbatches_settle(gd_microbatches *microbatches);
/* The memory for a sum over microbatches of the dtype of partial sums without one more copy: this rank's first subtree; NULL: it has
 * none.  Borrowed; once all microbatches are added. */
gd_tensor *gd__microbatches_room(gd_microbatches *microbatches);
/* All microbatches of this rank at once: the sums of its subtrees (gd__tree_of) in their order, as above.  Consumed. */
void gd__microbatches_fill(gd_microbatches *microbatches, gd_tensor *const *sums);

#endif
