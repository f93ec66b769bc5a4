/* gradus/link/plugin.h: user-defined links in a shared library, for the program `gradus` and other programs.
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

/* The contents of a plugin: version and struct sizes of its headers, and its classes. */
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
/* Prefix of the definition: C linkage in C++ too. */
#define GD_PLUGIN_EXTERN extern
#endif

/* Defines the entry symbol, at file level of one source file, with the addresses of all classes of the plugin. */
#define GD_LINK_PLUGIN(...)                                                                      \
    GD_PLUGIN_EXTERN const gd_link_plugin gd_plugin_links;                                       \
    static const gd_link_class *const gd_plugin_classes[] = {__VA_ARGS__};                       \
    const gd_link_plugin gd_plugin_links = {GD_VERSION, sizeof(gd_link_class), sizeof(gd_field), \
                                            gd_plugin_classes,                                   \
                                            (int)(sizeof gd_plugin_classes / sizeof *gd_plugin_classes)};

/* Loads a plugin and registers its classes with the context, all or none; the library stays as long as the context.  A path
 * without a '/' is a file of the current folder.  Loading it again does nothing.  IO: no such file; FORMAT: it is no
 * library for this system, has no entry symbol, or was compiled for a different version of gradus (0.y: a different y); ARGUMENT: a
 * class is invalid, or its name is taken. */
GD_NODISCARD gd_status gd_link_plugin_load(gd_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
