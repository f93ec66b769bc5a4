/* The transport of a world: messages between ranks, nothing else.  Collectives are made of these in
 * collectives.c, so that every transport gives the same bits; a plugin fills the same table.
 *
 * A message and its bytes must not move from post until it is done or cancelled. A send matches the receive with the same two ranks,
 * collective and part; messages between two ranks with the same collective are posted in the order of their
 * parts on both sides. */
#ifndef GD_WORLD_TRANSPORT_H
#define GD_WORLD_TRANSPORT_H

#include "tensor/device.h"

typedef struct gd_message {
    int from, to;
    int part;
    int64_t op; /* number of the collective */
    void *data;
    size_t bytes;
    gd_device *device; /* device of that memory; NULL: the host */
    bool sends;        /* posted by the sending rank */
    bool done;
    bool busy, taken;        /* private to the transport */
    uint64_t request;        /* private to the transport */
    struct gd_message *next; /* private to the transport */
} gd_message;

typedef struct gd_endpoint gd_endpoint;

typedef struct gd_transport {
    gd_status (*post)(gd_endpoint *e, gd_message *m);
    /* Sets m->done when it is.  False: it never will be, because the other rank has left or, with an error, the transport has failed. */
    bool (*test)(gd_endpoint *e, gd_message *m);
    void (*cancel)(gd_endpoint *e, gd_message *m);
    /* Native collectives, completed like messages; NULL: none, they are made of messages.  `sum` adds the tensors of
     * all ranks in place, in any order; `gather` puts each rank's bytes into `out` in the order of ranks; `spread` gives
     * those of the rank `from` to all.  The last two are for device memory only. */
    gd_status (*sum)(gd_endpoint *e, gd_message *m, gd_dtype dtype);
    gd_status (*gather)(gd_endpoint *e, gd_message *m, void *out);
    gd_status (*spread)(gd_endpoint *e, gd_message *m);
    /* Can the bytes of a message be in its memory?  NULL: in the host's only. */
    bool (*reaches)(gd_endpoint *e, const gd_device *device);
    bool in_order;                                /* messages have no names: one collective after the other */
    void (*idle)(gd_endpoint *e, double seconds); /* waits until something has happened, or that long */
    /* A rank that waits long reports it repeatedly, as it is not the missing one.  Seconds since a rank's report, INFINITY: none. NULL,
     * both: unknown. */
    void (*say_waiting)(gd_endpoint *e);
    double (*heard)(gd_endpoint *e, int rank);
    /* The world fails: sends the reason to the others.  May end the process. */
    void (*give_up)(gd_endpoint *e, const char *text);
    /* The reason why a different rank has failed; NULL: none has. */
    const char *(*given_up)(gd_endpoint *e);
    void (*close)(gd_endpoint *e);
} gd_transport;

/* The endpoint of one rank. */
struct gd_endpoint {
    const gd_transport *transport;
    gd_ctx *ctx;
    const gd_host *host; /* for plugins: fail, alloc, free */
    uint64_t layout;     /* GD_WORLD_LAYOUT of the library */
    double timeout;      /* seconds that joining may take */
    /* For plugins on top of a different transport: joins the world of that name in `other`; and gd_world_describe. */
    gd_status (*join)(gd_endpoint *other, gd_ctx *ctx, const char *name);
    bool (*describe)(gd_ctx *ctx, const char *name, char *text, size_t size);
    int rank, size;
    char about[160]; /* "Open MPI 4.1.4" */
    void *state;
};

#define GD_WORLD_LAYOUT                                                                            \
    (GD_PLUGIN_LAYOUT ^ (uint64_t)sizeof(gd_message) << 8 ^ (uint64_t)sizeof(gd_transport) << 20 ^ \
     (uint64_t)sizeof(gd_endpoint) << 30)

/* What a plugin exports: `gd_plugin_join` fills transport, rank, size, about and state, or records an error;
 * `gd_plugin_describe_world` says what it is without joining. */
typedef gd_status (*gd_plugin_join_fn)(gd_endpoint *e);
typedef bool (*gd_plugin_describe_world_fn)(char *text, size_t size);

#endif
