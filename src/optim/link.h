/* The inside of a link. */
#ifndef GD_OPTIM_LINK_H
#define GD_OPTIM_LINK_H

#include "gradus/link.h"
#include "optim/program.h"
#include "tensor/tensor.h"

/* What a link keeps for one parameter. */
typedef struct gd_entry {
    gd_tensor *param;    /* the key; retained, so that the address stays its own */
    gd_tensor **slot;    /* one a declared slot, NULL until used */
    bool *fresh;         /* the slot was made since it was last written */
    double *scalar;      /* one a declared scalar */
    gd_setting *local;   /* one a field, kind 0: not set; NULL: none */
} gd_entry;

typedef struct gd_global {
    const char *name; /* interned */
    double value;
    gd_tensor *tensor; /* NULL: a number */
} gd_global;

struct gd_link {
    gd_object head;
    const gd_link_class *cls;
    gd_setting *value; /* one a field */
    gd_link **child;
    int *child_field; /* the field a child belongs to */
    int children, child_capacity;
    gd_entry **entry;
    int entries, entry_capacity;
    gd_global *global;
    int globals;
    int64_t step; /* applications so far */
    gd_rng rng;
    uint64_t fuse_stamp;  /* tree stamp for which `fuse` holds */
    bool fuse;
    bool seeded, owned; /* owned: has a parent or an optimizer */
    void *data;
    gd_optimizer *optimizer; /* borrowed; NULL outside one */
    uint64_t stamp;          /* changes when programs made from this link are no longer right */
    uint64_t numbers;        /* changes when a number setting does */
    gd_tensor **kept_tensors, **kept_params, **kept_grads; /* between update and apply of a transform */
    int kept;
};

int gd__field_index(const gd_link_class *cls, const char *name);
int gd__slot_index(const gd_link_class *cls, const char *name);
int gd__scalar_index(const gd_link_class *cls, const char *name);
int gd__scalar_count(const gd_link_class *cls);
/* The entry of a parameter, made if need be; NULL on no memory. */
gd_entry *gd__entry(gd_link *link, gd_tensor *param);
gd_entry *gd__entry_find(const gd_link *link, const gd_tensor *param);
void gd__entry_drop(gd_link *link, const gd_tensor *param);
/* Makes a slot (zeros of dtype, like the parameter) if it is not there. */
gd_tensor *gd__entry_slot(gd_link *link, gd_entry *entry, int slot, gd_dtype dtype);
/* The setting of field for a parameter through the three levels; param NULL: the link's own. */
const gd_setting *gd__resolve(const gd_link *link, int field, const gd_tensor *param);
/* True when the link and all children it uses are element-wise and may be fused. */
bool gd__fusable(gd_link *link);
/* Sum of the stamps of a link and all below it. */
uint64_t gd__tree_stamp(const gd_link *link);
bool gd__is_rule(const gd_link *link);

#endif
