/* gradus/version.h: which gradus this is, and what it asks of a thread.
 *
 *     if (strcmp(gd_version(), GD_VERSION)) puts("compiled with other headers than the library it runs with");
 */
#ifndef GRADUS_VERSION_H
#define GRADUS_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers: the build takes it from here.  0.y.z: the interface may change with y. */
#define GD_VERSION_MAJOR                     0
#define GD_VERSION_MINOR                     2
#define GD_VERSION_PATCH                     0
#define GD_VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch
#define GD_VERSION_OF(major, minor, patch)   GD_VERSION_TEXT(major, minor, patch)
#define GD_VERSION                           GD_VERSION_OF(GD_VERSION_MAJOR, GD_VERSION_MINOR, GD_VERSION_PATCH)

/* GD_VERSION of the library that runs.  Borrowed, static. */
const char *gd_version(void);

/* Bytes of stack that a step, a solver or a derivative takes beside what your callbacks take, whatever the chain and the
 * size of the tensors: what a thread that runs them must have (pthread_attr_setstacksize).  Interpreted programs take about
 * 130 KB of it, those that are compiled and compared with the interpreter 167 KB. */
#define GD_STEP_STACK (192 << 10)

#ifdef __cplusplus
}
#endif
#endif
