/* gradus/plugin.h: links of one's own in a shared library, for the program `gradus` and for whoever loads it.
 *
 *     static gd_value twice(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_const(r, 2)); }
 *     static const gd_link_class twice_class = {.name = "twice", .summary = "doubles the update", .rule = twice};
 *
 * and, at file level, GD_LINK_PLUGIN(&twice_class) are twice.c; at a shell
 *
 *   cc -shared -fPIC -o twice.so twice.c
 *   gradus minimize 'x^2' --param x=1 --plugin twice.so --chain 'twice | lr(0.1)' --steps 10
 *
 * The library takes gd_ functions from the program that loads it; it need not be linked with libgradus. */
#ifndef GRADUS_PLUGIN_H
#define GRADUS_PLUGIN_H

#include "gradus/link.h"
#include "gradus/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plugin says of itself: version and sizes of the headers it was compiled with, and its classes. */
typedef struct gd_link_plugin {
    const char *version; /* stays the first member in every version */
    size_t class_size, field_size;
    const gd_link_class *const *classes;
    int count;
} gd_link_plugin;

#define GD_PLUGIN_ENTRY "gd_plugin_links" /* the symbol that is looked for */
#ifdef __cplusplus
#define GD_PLUGIN_EXTERN extern "C"
#else
/* Before the one definition of a plugin: C linkage in C++ too. */
#define GD_PLUGIN_EXTERN extern
#endif

/* Defines the entry symbol: at file level of one source, with the addresses of all classes that the plugin brings. */
#define GD_LINK_PLUGIN(...)                                                                      \
    GD_PLUGIN_EXTERN const gd_link_plugin gd_plugin_links;                                       \
    static const gd_link_class *const gd_plugin_classes[] = {__VA_ARGS__};                       \
    const gd_link_plugin gd_plugin_links = {GD_VERSION, sizeof(gd_link_class), sizeof(gd_field), \
                                            gd_plugin_classes,                                   \
                                            (int)(sizeof gd_plugin_classes / sizeof *gd_plugin_classes)};

/* Loads a plugin and registers its classes with the context, all or none; the library stays as long as the context.  A path
 * without a '/' is a file of the current folder.  Loading it again is fine.  IO: no such file; FORMAT: no library, or none that
 * can be loaded here, no entry symbol, or one that was compiled for another version of gradus (0.y: another y); ARGUMENT: a class
 * that makes no sense, or whose name is taken. */
GD_NODISCARD gd_status gd_link_plugin_load(gd_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
