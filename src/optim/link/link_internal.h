/* The inside of a link. */
#ifndef GD_OPTIM_LINK_LINK_INTERNAL_H
#define GD_OPTIM_LINK_LINK_INTERNAL_H

#include "gradus/link.h"
#include "program/program.h"
#include "base/text/address_map.h"
#include "tensor/tensor_internal.h"

/* The state of a link for one parameter. */
typedef struct gd_entry {
    gd_tensor *param; /* the key; retained, so that the address stays its own */
    gd_dtype dtype;   /* of the parameter, when its state was made or last followed it */
    gd_tensor **slot; /* one per declared slot, NULL until used */
    bool *fresh;      /* a rule's slot was made and not written yet */
    uint16_t *
        sharded; /* of a slot: 0, or the shape and format of the whole tensor of which the slot has this process's shard (GD_SHARDED) */
    bool parted; /* the rank that owns the parameter has all of it, others nothing, see ranks/entries.c */
    double *scalar;    /* one per declared scalar */
    int64_t missed;    /* applications of the link without this parameter */
    int64_t seen;      /* the last one that included it, if that was counted */
    gd_setting *local; /* one per field, kind 0: not set; NULL: none */
} gd_entry;

/* The whole tensor of a slot: the parameter's axes that it lacks, codes with or without their errors. */
#define GD_SHARDED(without, feedback) ((uint16_t)(1u | (unsigned)(without) << 1 | (unsigned)(feedback) << 15))

/* Tensors that the link's children step over in place of a parameter, see gd__stand_ins. */
typedef struct gd_stand_in {
    gd_tensor *param; /* retained; NULL: of all parameters together */
    gd_tensor **tensor;
    int count;
} gd_stand_in;

/* Owners of the columns of a matrix over all parameters, from the left, if each process has its own columns. */
typedef struct gd_column_owners {
    int64_t total;
    int runs;
    struct {
        int rank;
        int64_t count;
    } run[];
} gd_column_owners;

static inline size_t gd__columns_size(int runs)
{
    return sizeof(gd_column_owners) + (size_t)runs * sizeof(((gd_column_owners *)0)->run[0]);
}

typedef struct gd_global {
    const char *name;  /* interned */
    const char *asked; /* address of the name in the last request */
    double value;
    gd_tensor *tensor; /* NULL: a number */
    gd_column_owners *
        columns; /* owners of the columns if the tensor has only this process's; owned, NULL: the tensor is whole */
} gd_global;

struct gd_link {
    gd_object head;
    const gd_link_class *cls;
    gd_setting *value; /* one per field */
    gd_link **child;
    int *child_field; /* the field a child belongs to */
    int children, child_capacity;
    gd_entry **entry;
    int entries, entry_capacity;
    int locals;   /* entries with settings of their own */
    gd_map table; /* from parameters to entries */
    gd_global **global;
    int globals;
    gd_stand_in *stand_in;
    int stand_ins, stand_in_room;
    gd_map standing; /* from tensors to numbers of their stand-ins */
    int64_t step;    /* applications so far */
    bool uneven;     /* some parameters may have missed some of them */
    bool unlisted;   /* loaded without entries: those made for the next application have missed none */
    gd_rng rng;
    bool seeded;
    bool reads_grad, reads_loss; /* its rule reads them, although its class does not declare it */
    bool reads_step;             /* its rule reads the step count */
    bool owned;                  /* has a parent or an optimizer */
    struct {                     /* of the link and all below it, for one structure of the optimizer */
        bool fuses, needs_grad, needs_loss;
        uint64_t structure; /* 0: not known */
        bool parts_fuse;
        uint64_t parts; /* the structure of that */
    } found;
    void *data;
    gd_optimizer *optimizer; /* borrowed; NULL outside one */
    int lr;                  /* its field of that name; -1: it has none */
    uint8_t guess[128];      /* by the address of a name: the field that it may be of */
};

/* gd_link_new, also of a preset: settings for the parser to fill in, never in a chain. */
gd_link *gd__link_new(gd_ctx *ctx, const gd_link_class *cls);
int gd__field_index(const gd_link_class *cls, const char *name);
/* The same, faster for a name requested before: the linker merges equal texts, so names in code have the addresses of the class's names. */
int gd__link_field_new(gd_link *link, const char *name); /* no guess for this one */
static inline size_t gd__name_place(const char *name) { return (uintptr_t)name * 0x9e3779b97f4a7c15u >> 57; }
static inline int gd__link_field(gd_link *link, const char *name)
{
    int guess = link->guess[gd__name_place(name)];
    bool right = guess < link->cls->field_count && link->cls->fields[guess].name == name;
    return right ? guess : gd__link_field_new(link, name);
}
int gd__slot_index(const gd_link_class *cls, const char *name);
int gd__scalar_index(const gd_link_class *cls, const char *name);
extern const gd_link_class gd_link_chain;
static inline bool gd__is_chain(const gd_link *link) { return link->cls == &gd_link_chain; }

/* ---- state ---- */

/* The entry of a parameter, made if need be; NULL on no memory. */
gd_entry *gd__entry(gd_link *link, gd_tensor *param);
gd_entry *gd__entry_find(const gd_link *link, const gd_tensor *param);
void gd__entry_drop(gd_link *link, const gd_tensor *param);
void gd__entries_drop(gd_link *link, const gd_tensor *param);                /* also below the link */
void gd__entries_rekey(gd_link *link, const gd_tensor *old, gd_tensor *now); /* the same; needs no memory */
bool gd__any_local(const gd_link *link); /* does it, or one below, have settings of single parameters? */
/* Applications of the link that a parameter was part of. */
static inline int64_t gd__entry_steps(const gd_link *link, const gd_entry *e)
{
    return link->step - e->missed;
}
/* After an application to some parameters, `keys`: the others have missed it. */
void gd__entries_miss(gd_link *link, gd_tensor *const *keys, int count);
/* Makes an entry outside of a link, and frees it. */
gd_entry *gd__entry_new(gd_link *link, gd_tensor *param);
void gd__entry_free(gd_link *link, gd_entry *e);
/* Puts a tensor into a slot and takes its reference: the only function that does. */
void gd__entry_put(gd_link *link, gd_entry *entry, int slot, gd_tensor *t, bool fresh);
/* Makes a slot (zeros of dtype, shaped like `like` without some axes) if it is not there. */
gd_tensor *gd__entry_slot(gd_link *link, gd_entry *entry, int slot, gd_dtype dtype, const gd_tensor *like,
                          unsigned without);
/* Shape of a slot for a parameter, size[GD_MAX_DIMS]: its number of axes.  And one uninitialised, new. */
int gd__slot_shape(const gd_tensor *like, gd_dtype dtype, unsigned without, bool feedback, int64_t *size);
gd_tensor *gd__slot_new(const gd_tensor *like, gd_dtype dtype, unsigned without, bool feedback);
/* Is t shaped like param without these axes?  And could it be for some, where the class allows it for the slot (-1: for one)? */
bool gd__shape_without(const gd_tensor *t, const gd_tensor *param, unsigned without);
bool gd__slot_fits(const gd_link *link, int slot, const gd_tensor *t, const gd_tensor *param);
/* The same for a slot of a rule that is to be of a dtype; codes always fit, because a later group may use them. */
bool gd__slot_fits_as(const gd_link *link, int slot, const gd_tensor *t, const gd_tensor *param,
                      gd_dtype dtype);
/* Bytes of the state that there is; and what a link that is not a rule comes to hold, see gd_link_class. */
int64_t gd__state_held(const gd_link *link);
int64_t gd__state_expected(const gd_link *link, gd_tensor *const *params, int count);
/* The dtype of a slot that rules use for a parameter whose settings are those of key; GD_U8: codes of eight bits (base/narrow.h).
 * If it has lost axes (gd_rule_slot_without) there are no codes. */
gd_dtype gd__slot_dtype(const gd_link *link, int slot, const gd_tensor *param, const gd_tensor *key);
/* The dtype chosen for all its slots, whatever their size; GD_DTYPE_COUNT: none. */
gd_dtype gd__state_chosen(const gd_link *link, const gd_tensor *key);
/* Are codes kept with their errors (feedback)? */
bool gd__state_feedback(const gd_link *link, const gd_tensor *key);
/* A slot of a parameter in a different dtype, codes with or without their rounding errors; new, owned.  NULL on failure. */
gd_tensor *gd__slot_in(gd_link *link, int slot, gd_tensor *t, const gd_tensor *param, gd_dtype dtype,
                       bool feedback);
/* gd_link_state for a parameter whose shape may differ from its key: codes become f32 until a program runs. */
gd_tensor *gd__slot_numbers(gd_link *link, gd_tensor *key, const char *name, const gd_tensor *param);
/* Has a tensor the format of codes for a parameter? Of codes with errors? */
bool gd__is_coded_for(const gd_tensor *t, const gd_tensor *param);
bool gd__is_fed_back(const gd_tensor *t, const gd_tensor *param);
void gd__entries_free(gd_link *link);
/* Moves the state of a parameter to its device and dtype. */
gd_status gd__slots_follow(gd_link *link, gd_entry *e);
void gd__globals_free(gd_link *link);
gd_global *gd__global_find(const gd_link *link, const char *name); /* NULL: there is none */
/* Replaces the tensor; consumes both. */
void gd__global_put(gd_link *link, gd_global *global, gd_tensor *t, gd_column_owners *columns);

/* ---- stand-ins: children that step over other tensors than the parameters ---- */

/* The tensors that stand in for a parameter (NULL: for all of them together), in *out, borrowed: those of the last call if they are
 * shaped like `like`, else new ones, for which children have no state.  If dtype or device differs, the state
 * of the children follows. */
gd_status gd__stand_ins(gd_link *link, gd_tensor *param, gd_tensor *const *like, int count,
                        gd_tensor *const **out);
/* Takes over owned tensors, also on failure: for loading. */
gd_status gd__stand_ins_add(gd_link *link, gd_tensor *param, gd_tensor **tensor, int count);
/* The original of a stand-in in a link or below; NULL: it is not a stand-in. */
const gd_stand_in *gd__stands_for(const gd_link *link, const gd_tensor *t);
/* Drops those of a parameter, or all, with the state of children for them. */
void gd__stand_ins_drop(gd_link *link, const gd_tensor *param);
void gd__stand_ins_reset(gd_link *link);
void gd__stand_ins_free(gd_link *link); /* the memory alone */

/* ---- settings and structure ---- */

/* The first required setting that is missing; NULL: none. */
const char *gd__link_needs(const gd_link *link);

/* The setting of field in force for a parameter; param NULL: for the whole step.  See in_force.c. */
const gd_setting *gd__resolve(const gd_link *link, int field, const gd_tensor *param);
/* That of the whole step by name; NULL, and no error, where the class has no such field. */
const gd_setting *gd__in_force(const gd_link *link, const char *name);
/* Has a parameter this setting for itself? */
bool gd__has_local(const gd_link *link, int field);
/* Its own random stream if it has a seed in force, else the context's. */
gd_rng *gd__link_rng(gd_link *link);
/* The key of its rule's random numbers for a parameter, by name or, without one, by position: below 2^53. */
double gd__link_key(gd_link *link, const gd_tensor *param, int position);
/* The link is given to an optimizer, or taken from it (NULL); its children too.  Runs the classes' checks. */
gd_status gd__link_adopt(gd_link *link, gd_optimizer *optimizer);
/* As gd__fusable (owner.h), except for hooks around the link itself, which run outside of programs. */
bool gd__fusable_inside(gd_link *link);
/* The link runs by its rule, not by functions of tensors. */
bool gd__is_rule(const gd_link *link);
/* Of a class with parts: its children are rules, none of which reduces over all parameters. */
bool gd__parts_fuse(gd_link *link);

#endif
