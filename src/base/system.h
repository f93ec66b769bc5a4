/* What one operating system tells and another does not.  Calls that only one C library has stay in this folder
 * (tools/check_portable). */
#ifndef GD_BASE_SYSTEM_H
#define GD_BASE_SYSTEM_H

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* Has the program more rights than who started it?  Then what the environment says is not believed. */
static inline bool gd__is_privileged(void)
{
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#else
    return issetugid() != 0;
#endif
}

static inline const char *gd__trusted_env(const char *name)
{
    return gd__is_privileged() ? NULL : getenv(name);
}

/* What the processor can do, as the system counts it; 0 where it does not. */
static inline void gd__cpu_features(unsigned long out[2])
{
    out[0] = out[1] = 0;
#ifdef __linux__
    out[0] = getauxval(AT_HWCAP);
    out[1] = getauxval(AT_HWCAP2);
#endif
}

static inline const char *gd__libc_version(void)
{
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    return "unknown";
#endif
}

#endif
