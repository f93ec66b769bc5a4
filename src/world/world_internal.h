/* The inside of a world.
 *
 * A collective is a gd_exchange that goes through stages; in each it posts messages and continues when all are done:
 *
 *     QUEUED    it waits for its turn
 *     FINGERPRINT      every rank sends its sheet (what it is about to do) to all, in large worlds to rank 0
 *     VERDICT   ranks with all sheets compare them, rank 0 of a large world replies to all: continue, or the ranks that differ
 *     COUNT     only where they are at different things: how many each has started
 *     FIRST     bytes move (slices of sums to their owners, pieces, down the tree of a broadcast)
 *     SECOND    finished slices go to all; a broadcast goes further down
 *
 * A few numbers travel on the sheets themselves, and nothing moves after the fingerprint: small sums, gathers and broadcasts take one message
 * from each to each.
 *
 * All memory is there before the fingerprint, and a rank that cannot take part reports it on its sheet, so that no rank waits for it in vain.
 *
 * A rank that has failed elsewhere reports it instead of the next collective, after which the others may have started more:
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

/* What a rank is about to do. */
typedef struct gd_sheet {
    int64_t size[GD_MAX_DIMS];
    int64_t total; /* microbatches */
    int64_t cuts;  /* a number made of them */
    int32_t kind, dtype, ndim, root, how;
    int32_t failed; /* gd_status: it cannot take part, `why` */
    int32_t fills;  /* it has not even started this one, others have */
    char name[120]; /* of what it is about */
    char why[400];
    char machine[48]; /* of exact sums: what computes */
    char payload[GD_PAYLOAD];
} gd_sheet;

typedef struct gd_verdict {
    int32_t status;
    int32_t uneven; /* ranks are at different things: they count */
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
    gd_status status; /* what it ended with */
    bool spare;       /* part of the world */
    int64_t end;      /* of a filler: it replaces numbers op ... end - 1 */
    bool small;       /* its data are on the sheets */
    gd_collective what;
    gd_sheet mine, *sheet; /* all of them, at rank 0 */
    gd_verdict verdict;
    gd_message *message;
    int messages, room;
    /* of the data */
    gd_device *at;   /* where messages find their bytes: the CPU, or a device that the transport reaches */
    gd_tensor *host; /* `tensor` in row-major order there: itself, or a copy */
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
    gd_exchange *idle;          /* not under way, for the next that are started; through `next` */
    int reserved;               /* how many at most */
    gd_exchange *spare;         /* for telling that there is no memory */
    gd_exchange *filler;        /* for those that others have started and this rank has not; of the world */
    gd_exchange *unseen;        /* ended because of such a rank, and not waited for yet */
    double said;                /* when it told others that it waits */
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
    gd_device *at;    /* where the sums are */
    gd_status failed; /* adding */
    int ndim;
    int64_t size[GD_MAX_DIMS];
    int64_t total, first, count, added;
    gd_tree tree; /* of gd_tensor */
    gd_tensor *waiting
        [GD_MICROBATCHES_WAIT]; /* the last that were added: they are joined with the tree in one pass */
    int waits;
};

/* ---- world.c ---- */

/* A world over an end that is open; closes the end where that fails. */
gd_world *gd__world_over(const gd_endpoint *end, const char *name, const gd_world_options *options);
/* Calls what a rank does: while it runs the world cannot be freed. */
gd_status gd__world_lend(gd_world *world, gd_world_fn fn, void *user);
/* Where messages of a device's memory find their bytes: there, or on the CPU. */
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

/* ---- collectives.c: what there is between the fingerprint and the end ---- */

/* Checks what is given and makes all memory for it. */
gd_status gd__exchange_prepare(gd_exchange *work);
/* Posts the messages of a stage (FIRST, SECOND), after what has come in the one before is dealt with. */
gd_status gd__exchange_post(gd_exchange *work);
/* Writes the result where it belongs. */
gd_status gd__exchange_deliver(gd_exchange *work);
void gd__exchange_drop_data(gd_exchange *work);
/* Starts a collective and waits for it. */
gd_status gd__world_call(gd_world *world, const gd_collective *what);

/* The bits (1, 2) that any rank has, in all of them: what ranks decide together, at the same place.  world NULL: its own. */
int gd__world_any(gd_ctx *ctx, gd_world *world, int bits);
/* A number of the first rank, in all of them. */
double gd__world_first(gd_ctx *ctx, gd_world *world, double number);

/* ---- exchange.c ---- */

gd_exchange *gd__exchange_new(gd_world *world);
void gd__exchange_free(gd_exchange *work);
/* From now on so many collectives at a time, whose tensors are where messages find their bytes and which are no sums, can be started
 * without memory.  NOMEM, with fewer; 0 always succeeds. */
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
/* Joins what waits. */
gd_status gd__microbatches_settle(gd_microbatches *microbatches);
/* The memory for a sum over microbatches of the dtype of partial sums without one more copy: this rank's first subtree; NULL: it has
 * none.  Borrowed; once all microbatches are there. */
gd_tensor *gd__microbatches_room(gd_microbatches *microbatches);
/* All microbatches of this rank at once: the sums of its subtrees (gd__tree_of) in their order, as above.  Consumed. */
void gd__microbatches_fill(gd_microbatches *microbatches, gd_tensor *const *sums);

#endif
