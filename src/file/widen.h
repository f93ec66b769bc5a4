/* Dtypes of files that gradus does not support, read as the next wider supported one. */
#ifndef GD_FILE_WIDEN_H
#define GD_FILE_WIDEN_H

#include "base/ctx.h"
#include "gradus/tensor.h"

/* Reads count elements.  Returns how many fit: fewer than count if the next one is out of range of the wider dtype. */
typedef size_t gd_widen_fn(const void *from, size_t count, void *to);

gd_widen_fn gd__widen_i8, gd__widen_i16, gd__widen_u16;     /* to i32 */
gd_widen_fn gd__widen_u32, gd__widen_u64;                   /* to i64; u64 only below 2^63 */
gd_widen_fn gd__widen_e4m3, gd__widen_e5m2, gd__widen_e8m0; /* to f32, all of them exactly */
gd_widen_fn gd__widen_e4m3fnuz, gd__widen_e5m2fnuz;

#endif
