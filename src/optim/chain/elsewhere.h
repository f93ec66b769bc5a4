/* Names of methods in other systems; see elsewhere.def. */
#ifndef GD_OPTIM_CHAIN_ELSEWHERE_H
#define GD_OPTIM_CHAIN_ELSEWHERE_H

#include <stdbool.h>
#include <stddef.h>

#define GD_ELSEWHERE_SIZE 128

/* The chain for the call that a text begins with: "adam | lr(0.1)" for "torch.optim.Adam(lr=0.1) ...".  *length: bytes of
 * the name.  False: the name is unknown. */
bool gd__elsewhere(const char *text, size_t *length, char out[GD_ELSEWHERE_SIZE]);
/* Does the name of an argument stand for a learning rate? */
bool gd__is_rate(const char *name, size_t length);

#endif
