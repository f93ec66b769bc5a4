/* No output destroys an input; see gd__paths_check in args.h.
 *
 * What a command reads and writes is in its table: arguments from reads_from on, and options with a role.  All of them are
 * collected as places on disk, and every output is compared with everything before anything is opened. */
#include "cli/args.h"
#include "train/data/dataset.h"
#include "table/value.h"
#include "file/file_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST GD_FILE_PATH

/* A file by device and inode; a file that does not exist yet by folder and name. */
typedef struct place {
    bool known, regular;
    dev_t device;
    ino_t number;
    char name[256]; /* in the folder `number`; "": the file is there */
} place;

typedef struct use {
    char what[64]; /* "--out", "DATA" */
    const char *path;
    bool reads, writes, continues;
    place at;
} use;

/* ---- places ---- */

/* A path without the member after the colon, as in table.csv:column, unless a file has the whole name. */
static bool whole_path(const char *path, char out[LONGEST])
{
    struct stat info;
    size_t length = strlen(path);
    const char *inner = NULL;
    if (stat(path, &info) != 0) length = gd__value_file(path, &inner);
    if (length >= LONGEST) return false;
    memcpy(out, path, length);
    out[length] = 0;
    return true;
}

static void locate_new(const char *path, place *p)
{
    char folder[LONGEST];
    struct stat info;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, length);
    folder[length] = 0;
    if (strlen(name) >= sizeof p->name || stat(length ? folder : ".", &info) != 0) return;
    *p = (place){.known = true, .regular = true, .device = info.st_dev, .number = info.st_ino};
    memcpy(p->name, name, strlen(name) + 1);
}

static void locate(const char *path, place *p)
{
    char whole[LONGEST], target[LONGEST];
    struct stat info;
    *p = (place){.known = false};
    bool input = !strcmp(path, "-");
    if (!input && (!whole_path(path, whole) || !gd__file_target(whole, target))) return;
    if ((input ? fstat(STDIN_FILENO, &info) : stat(target, &info)) != 0) {
        if (!input) locate_new(target, p);
        return;
    }
    *p = (place){
        .known = true, .regular = S_ISREG(info.st_mode), .device = info.st_dev, .number = info.st_ino};
}

static bool same(const place *a, const place *b)
{
    return a->known && b->known && a->regular && b->regular && a->device == b->device &&
           a->number == b->number && !strcmp(a->name, b->name);
}

/* ---- inputs and outputs of a command line ---- */

/* The word of "MODEL.safetensors DATA" for argument i; the last one is used for all later arguments. */
static void name_argument(const gd_command *c, int i, char out[64])
{
    const char *word = c->arguments;
    for (; i > 0; i--) {
        const char *next = strchr(word, ' ');
        if (!next) break;
        word = next + 1;
    }
    (void)snprintf(out, 64, "%.*s", (int)strcspn(word, " "), word);
}

static const char *file_of_value(const char *value)
{
    const char *equals = strchr(value, '='), *at = equals ? equals + 1 : value;
    at += strspn(at, " \t");
    return *at == '@' ? at + 1 : NULL;
}

static bool use_of_option(const gd_args *a, int i, use *u)
{
    const gd_option *o = a->option[i];
    u->path = a->value[i];
    switch (o->path) {
    case GD_PATH_NONE:
    case GD_PATH_FOLDER: return false;
    case GD_PATH_READ: u->reads = true; break;
    case GD_PATH_READ_VALUE:
        u->reads = true;
        u->path = file_of_value(u->path);
        break;
    case GD_PATH_READ_ROWS:
        u->reads = true;
        if (!a->arguments || gd__dataset_is_table(a->argument[a->arguments - 1])) return false;
        break;
    case GD_PATH_CONTINUE: u->reads = u->continues = true; break;
    case GD_PATH_WRITE: u->writes = true; break;
    case GD_PATH_WRITE_CONTINUED: u->writes = u->continues = true; break;
    }
    (void)snprintf(u->what, sizeof u->what, "--%.50s", o->name);
    return u->path && *u->path;
}

static int collect(const gd_args *a, use *out)
{
    int count = 0;
    bool named = false;
    for (int i = a->command->reads_from - 1; i >= 0 && i < a->arguments; i++) {
        use u = {.path = a->argument[i], .reads = true};
        name_argument(a->command, i, u.what);
        if (*u.path) out[count++] = u;
    }
    for (int i = 0; i < a->options; i++) {
        use u = {.reads = false};
        if (use_of_option(a, i, &u)) out[count++] = u;
        named = named || a->option[i]->path == GD_PATH_WRITE_CONTINUED;
    }
    for (int i = 0; i < count; i++) {
        if (out[i].reads && out[i].continues && !named) out[i].writes = true;
        locate(out[i].path, &out[i].at);
    }
    return count;
}

/* ---- comparing ---- */

static bool may_meet(const use *a, const use *b)
{
    if (!a->writes && !b->writes) return true;
    return a->continues && b->continues && a->reads != b->reads;
}

static gd_status compare(const gd_args *a, const use *uses, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (!may_meet(&uses[i], &uses[k]) && same(&uses[i].at, &uses[k].at))
                return gd_fail(a->ctx, GD_ARGUMENT, "%s: %s and %s are the same file: %.200s",
                               a->command->name, uses[k].what, uses[i].what, uses[i].path);
    return GD_OK;
}

static gd_status check(const gd_args *a, const char *more)
{
    size_t room = (size_t)a->arguments + (size_t)a->options + 1, bytes = room * sizeof(use);
    use *uses = gd__alloc(a->ctx, bytes);
    if (!uses) return GD_NOMEM;
    int count = collect(a, uses);
    if (more) {
        uses[count] = (use){.what = "the output", .path = more, .writes = true};
        locate(more, &uses[count].at);
        /* named by an option it has been compared already, and is the same file as itself */
        for (int i = 0; i < count; i++)
            if (uses[i].writes && !strcmp(uses[i].path, more)) more = NULL;
        if (more) count++;
    }
    gd_status status = compare(a, uses, count);
    gd__free(a->ctx, uses, bytes);
    return status;
}

gd_status gd__paths_check(const gd_args *a) { return check(a, NULL); }

gd_status gd__paths_check_output(const gd_args *a, const char *path) { return check(a, path); }
