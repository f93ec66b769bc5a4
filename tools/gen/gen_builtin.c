/* gen_builtin LIST OUTPUT: writes the C source of the programs that common chains run, as a table of kernels.
 *
 * Run by the build (cmake/Library.cmake): linked from the library's objects without built-in programs, it makes the
 * programs of every chain in LIST (src/optim/plan/builtin.def) as an optimizer would; OUTPUT is then compiled into the library,
 * once for each instruction set. */
#include "optim/step/optimizer.h"
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t hash;
    gd_text text;
} entry;

typedef struct table {
    entry *item;
    size_t count;
} table;

/* Adds the kernel of a pass, unless it is there. */
static gd_status add_kernel(void *user, const gd_program *p, const gd_pass *pass)
{
    table *all = user;
    entry new = {.hash = gd__program_hash(p, pass), .text = {.ctx = p->ctx}};
    char name[32];
    snprintf(name, sizeof name, "kernel_%016llx", (unsigned long long)new.hash);
    gd__emit_c(p, pass, name, &new.text);
    if (new.text.failed) return GD_NOMEM;
    for (size_t i = 0; i < all->count; i++) {
        if (all->item[i].hash != new.hash) continue;
        bool same = !strcmp(all->item[i].text.data, new.text.data);
        gd__text_free(&new.text);
        return same ? GD_OK : gd_fail(p->ctx, GD_INTERNAL, "two kernels with the hash %s", name);
    }
    entry *item = realloc(all->item, (all->count + 1) * sizeof *item);
    if (!item) return GD_NOMEM;
    all->item = item;
    all->item[all->count++] = new;
    return GD_OK;
}

/* A line: dtypes, then a chain: "f32,f64  adam | lr(0.1)". */
static gd_status add_line(gd_ctx *ctx, table *all, char *line)
{
    size_t dtypes = strcspn(line, " \t");
    char *chain = line + dtypes + strspn(line + dtypes, " \t");
    line[dtypes] = 0;
    for (char *word = strtok(line, ","); word; word = strtok(NULL, ",")) {
        gd_dtype dtype = gd_dtype_from_name(word);
        if (dtype == GD_DTYPE_COUNT) return gd_fail(ctx, GD_PARSE, "there is no dtype '%s'", word);
        gd_status status = gd__plan_programs(ctx, chain, dtype, add_kernel, all);
        if (status) return status;
    }
    return GD_OK;
}

static bool read_list(gd_ctx *ctx, table *all, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return false;
    }
    char line[4096];
    gd_status status = GD_OK;
    for (int number = 1; !status && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#') continue;
        status = add_line(ctx, all, line);
        if (status)
            fprintf(stderr, "%s:%d: %s\n", path, number,
                    gd_error(ctx) ? gd_error_text(ctx) : gd_status_name(status));
    }
    fclose(file);
    return !status;
}

static int by_hash(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

static void put_table(gd_text *out, const table *all)
{
    gd__text_put(out, "/* Kernels of common chains, made by tools/gen/gen_builtin.c. */\n"
                      "#include \"base/narrow.h\"\n"
                      "#include \"program/program.h\"\n\n"
                      "#define JOIN2(a, b) a##b\n"
                      "#define JOIN(a, b) JOIN2(a, b)\n\n");
    gd__emit_c_names(out);
    for (size_t i = 0; i < all->count; i++) gd__text_put(out, "static %s\n", all->item[i].text.data);
    gd__text_put(out, "static const gd_builtin items[] = {\n");
    for (size_t i = 0; i < all->count; i++) {
        unsigned long long hash = (unsigned long long)all->item[i].hash;
        gd__text_put(out, "    {0x%016llxu, kernel_%016llx},\n", hash, hash);
    }
    gd__text_put(out, "    {0, 0}};\n\nconst gd_builtin_table JOIN(gd__builtin_, GD_ISA) = {items, %zu};\n",
                 all->count);
}

/* Leaves a file that is as it should be alone, so that nothing is compiled again. */
static bool write_if_changed(const char *path, const gd_text *text)
{
    char *old = malloc(text->used + 2);
    FILE *file = fopen(path, "rb");
    size_t size = old && file ? fread(old, 1, text->used + 1, file) : 0;
    if (file) fclose(file);
    bool same = old && size == text->used && !memcmp(old, text->data, size);
    free(old);
    if (same) return true;
    file = fopen(path, "wb");
    bool done = file && fwrite(text->data, 1, text->used, file) == text->used;
    if (file && fclose(file)) done = false;
    if (!done) perror(path);
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: gen_builtin LIST OUTPUT\n");
        return 2;
    }
    gd_options options = gd_options_default();
    options.compile = false;
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (!ctx) return 1;
    table all = {.item = NULL};
    gd_text out = {.ctx = ctx};
    bool done = read_list(ctx, &all, argv[1]);
    if (done) {
        if (all.count) qsort(all.item, all.count, sizeof *all.item, by_hash);
        put_table(&out, &all);
        done = !out.failed && write_if_changed(argv[2], &out);
    }
    for (size_t i = 0; i < all.count; i++) gd__text_free(&all.item[i].text);
    free(all.item);
    gd__text_free(&out);
    gd_ctx_free(ctx);
    return done ? 0 : 1;
}
