/* gradus/version.h: the version, and the stack that a thread needs.
 *
 *     if (strcmp(gd_version(), GD_VERSION)) puts("compiled with other headers than the library it runs with");
 */
#ifndef GRADUS_VERSION_H
#define GRADUS_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers, also for the build.  0.y.z: the interface may change with y. */
#define GD_VERSION_MAJOR                     0
#define GD_VERSION_MINOR                     2
#define GD_VERSION_PATCH                     0
#define GD_VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch
#define GD_VERSION_OF(major, minor, patch)   GD_VERSION_TEXT(major, minor, patch)
#define GD_VERSION                           GD_VERSION_OF(GD_VERSION_MAJOR, GD_VERSION_MINOR, GD_VERSION_PATCH)

/* The version of the running library.  Borrowed, static. */
const char *gd_version(void);

/* Bytes of stack that a thread needs for a step, a solver or a derivative, without your callbacks, for any chain and size
 * of tensors (pthread_attr_setstacksize).  Interpreted programs take about 130 KB of it; compiled ones, which are first compared
 * with the interpreter, 167 KB. */
#define GD_STEP_STACK (192 << 10)

#ifdef __cplusplus
}
#endif
#endif
