/* A recording: the kernels that a function ran, in their order, and the memory that they read and wrote.
 *
 *     buffer   a storage: of an input, one that existed before (captured), or one made by the function
 *     operand a view of a buffer: offset, dtype, sizes, strides
 *     call     a kernel over operands; or numbers that the host wrote into a buffer
 *
 * Kernels are recorded, not operators: views, detached and aliased tensors are views of the same buffer, and copies and casts inside
 * operators are calls too. So a run of the calls repeats the function, bit for bit, as far as it consists of operators. Other work is either detected
 * (tensor/tensor_internal.h) and refused, or differs between two recordings. */
#ifndef GD_TRACE_RECORD_H
#define GD_TRACE_RECORD_H

#include "tensor/device.h"

#define GD_MAX_TRACE_INPUTS 1024 /* of a function */

typedef enum gd_buffer_origin { GD_ORIGIN_INPUT, GD_ORIGIN_CAPTURED, GD_ORIGIN_MADE } gd_buffer_origin;

typedef struct gd_buffer {
    gd_buffer_origin origin;
    bool moving;  /* may differ between two runs with the same captured tensors */
    bool by_host; /* made: the host wrote there after the last kernel did */
    bool written; /* made: by a kernel */
    int data;     /* made: 1 + the call with the data that the host wrote; 0: none, or a kernel wrote since */
    bool guarded; /* captured: the host read it, so a new version may change the path */
    int input;    /* which one */
    gd_storage *storage; /* captured: retained; else only compared while recording */
    uint64_t serial;     /* of the storage */
    uint32_t version;    /* captured: version at the first use */
    const char *base;    /* of its bytes, while recording */
    int64_t offset;      /* of an input: where its first element is, in bytes */
    size_t bytes;
} gd_buffer;

typedef struct gd_operand {
    int buffer;
    gd_dtype dtype;
    uint8_t ndim;
    bool rows;
    int64_t offset; /* in bytes */
    int64_t numel, size[GD_MAX_DIMS], stride[GD_MAX_DIMS];
} gd_operand;

typedef enum gd_call_kind {
    GD_CALL_KERNEL,
    GD_CALL_DATA,  /* bytes that the host made: the same in every run */
    GD_CALL_INPUT, /* bytes that are read again from the caller's memory */
    GD_CALL_SCAN   /* all steps of a loop, see trace/trace_scan.h */
} gd_call_kind;

struct gd_scan_call;

typedef struct gd_recorded {
    gd_call_kind kind;
    gd_op_id op;
    int nin, nout, first; /* operands from `first` on: inputs, then outputs */
    gd_attrs
        attrs;  /* of a random kernel: the position in the stream, relative to the start of the function */
    char *data; /* owned */
    const void *source; /* of the caller's */
    size_t bytes;
    struct gd_scan_call *scan; /* a reference */
} gd_recorded;

/* A device whose kernels pass through the recording. */
typedef struct gd_recorded_device {
    gd_device *device;
    gd_backend backend; /* in the place of the real one */
    const gd_backend *real;
} gd_recorded_device;

typedef struct gd_recording {
    gd_recorder hooks; /* first: the recorder is the recording */
    gd_ctx *ctx;
    gd_device
        *device; /* where the function's inputs are; the CPU, if it is a different one, counts as the host */
    gd_buffer *buffer;
    gd_operand *operand;
    gd_recorded *call;
    gd_operand *output;
    gd_axes **axes; /* of each output; owned */
    int *place;     /* by hash of the storage: 1 + buffer */
    int buffers, operands, calls, outputs;
    int buffer_room, operand_room, call_room, place_room;
    bool active, refused, no_memory;
    bool guarded;    /* the host read values computed from captured tensors */
    int depth;       /* kernels that run: a nested one is part of the outer */
    uint64_t serial; /* storages made before have smaller serials */
    uint64_t structure;
    gd_rng rng;                    /* where it began */
    uint64_t drawn;                /* blocks of the stream that it used */
    gd_recorded_device through[2]; /* the device, and the CPU where that is a different one */
    struct gd_recording *outer;    /* the enclosing recording, which gets everything, too; NULL: none */
    char reason[240];              /* why it was refused */
} gd_recording;

/* From here on kernels of the context are recorded.  Storages of inputs are given; NULL on no memory, with no error
 * recorded: recording is dropped, the function runs normally.  Inside a recording: NULL. */
gd_recording *gd__record_begin(gd_ctx *ctx, gd_tensor *const *inputs, int count);
/* The same inside of a recording, too. */
gd_recording *gd__record_inside(gd_ctx *ctx, gd_tensor *const *inputs, int count);
/* Ends the recording, with these outputs; count 0 if the function failed. */
void gd__record_end(gd_recording *r, gd_tensor *const *outputs, int count);
void gd__recording_free(gd_recording *r); /* NULL is fine */
/* Have data that the host read during recording changed since? */
bool gd__record_outdated(const gd_recording *r);
/* Whether two recordings are of the same work; if they are not, `why` has the reason. */
bool gd__recordings_agree(const gd_recording *a, const gd_recording *b, char *why, size_t size);

/* The same for steps of loops, whose captured tensors are operands of their calls. */
bool gd__steps_agree(const gd_recording *a, const gd_recording *b, char *why, size_t size);

/* Do tensors with so many axes have the same names and labels? */
bool gd__axes_alike(const gd_axes *a, const gd_axes *b, int ndim);

/* A tensor over the memory of t with a separate storage, so that a recording distinguishes an input from a captured tensor in the same
 * memory; it has the axes of t and no history.  NULL: no memory. */
gd_tensor *gd__record_look(gd_tensor *t);

/* The state of a recording; gd__record_rewind removes later notes. Both do nothing if r is NULL. */
typedef struct gd_record_mark {
    gd_buffer *buffer; /* a copy; owned */
    int buffers, operands, calls;
    bool refused, no_memory, guarded;
} gd_record_mark;
bool gd__record_mark(gd_recording *r, gd_record_mark *mark); /* false: no memory */
void gd__record_rewind(gd_recording *r, const gd_record_mark *mark);
void gd__record_unmark(gd_recording *r, gd_record_mark *mark);
/* Runs all steps of a loop as one call, which the current recording of the context notes. */
GD_NODISCARD gd_status gd__record_scan(struct gd_scan_call *scan, gd_tensor *const *in, int nin,
                                       gd_tensor *const *out, int nout);

/* Room for one item more in an array of a recording, given as the address of its pointer; false: r->no_memory is set. */
bool gd__record_reserve(gd_recording *r, void *array, int count, int *room, size_t item);
/* Copies outputs that are not in the function's own memory, at the end.  False: no memory. */
bool gd__record_copies(gd_recording *r);
/* Every output is copied to separate memory, without gaps, in each run; so it can be computed anywhere.  False: no memory. */
bool gd__record_apart(gd_recording *r);

/* Memory without an error if there is none. */
void *gd__quiet_alloc(gd_ctx *ctx, size_t size);
/* Room for one item more in an array, given as the address of its pointer, which holds `least` at first. */
bool gd__quiet_reserve(gd_ctx *ctx, void *array, int count, int *room, size_t item, int least);

#endif
