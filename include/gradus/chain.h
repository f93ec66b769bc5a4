/* gradus/chain.h: chains of links as text.
 *
 *     gd_link *chain = gd_chain(ctx, "clip_norm(1) | adam(beta1=0.8) | lr(1e-3)");
 *
 * A chain is links joined by '|'.  A link is its name, and in parentheses its settings, by position in the order of the
 * class or by name.  A value is one of
 *
 *     0.5  -1e-3  inf  -1/2          a number, also as a simple fraction
 *     lr(cosine(0.1, 0.001, 1000))   a number that changes with the step: any schedule of gradus/schedule.h
 *     "zeros"                        a string; \" \\ \n \t inside
 *     true  false  none
 *     [1, 0.5]                       a list of numbers
 *     adam   adam(0.9)               a child
 *     [adam | lr(0.1)]               a child chain; brackets in a chain, as in [a | b] | c, change nothing
 *
 *     multistep([adam | lr(0.1)], 3)     online(adam, [lr(0.1) | clip_value(1)])     adam(inner=clip_value(1))
 *
 *     adamw(lr=1e-3)   sgd(momentum=0.9)       a preset: is read and printed as the chain it stands for
 *
 * `schedule=` names the first setting of a link: lr(schedule=linear(0.1, 0, 100)) is lr(linear(0.1, 0, 100)).
 *
 * A setting that takes any number of children (online's modules) takes all remaining positional values; settings before it
 * must then be given, settings after it are given by name. */
#ifndef GRADUS_CHAIN_H
#define GRADUS_CHAIN_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a chain: one link as it is, several as a link of class `chain`; "[]" is an empty chain.  Knows the built-in
 * classes and those registered in the context.  New; NULL with PARSE recorded, the column counted from 1:
 *     chain: column 17: link 'adm' unknown, did you mean 'adam'?
 * Texts are at most 65536 bytes long and nested at most 64 deep. */
gd_link *gd_chain(gd_ctx *ctx, const char *text);

/* The same from links: the one link, or all in a link of class `chain`.  Chains among them are flattened.  The links
 * are consumed, on failure too; a NULL among them makes the result NULL (an error is recorded already).  New. */
gd_link *gd_chain_of(gd_ctx *ctx, gd_link *const *links, int count);

/* Writes the text of a link or chain as snprintf does, and returns the length it needs: settings that differ from
 * the default, required ones by position.  gd_chain makes an equal link of it.  Settings of single parameters
 * have no text. */
int gd_link_print(const gd_link *link, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
