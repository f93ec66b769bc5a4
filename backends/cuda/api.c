/* Opens the CUDA libraries by whatever name the system has them under. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Names of a library: those of CUDA 13, then of CUDA 12, then whatever is installed for building. */
typedef struct names {
    const char *what;
    const char *file[3];
} names;

static names names_of(char letter)
{
    switch (letter) {
    case 'D': return (names){"the NVIDIA driver (libcuda.so.1)", {"libcuda.so.1", "libcuda.so"}};
    case 'N': return (names){"libnvrtc", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}};
    case 'B': return (names){"libcublas", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}};
    case 'L': return (names){"libcublasLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}};
    default: return (names){"libcusolver", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"}};
    }
}

static void **handle_of(cuda_api *api, char letter)
{
    switch (letter) {
    case 'D': return &api->library_D;
    case 'N': return &api->library_N;
    case 'B': return &api->library_B;
    case 'L': return &api->library_L;
    default: return &api->library_S;
    }
}

/* A driver of CUDA 12 does not load what the libraries of CUDA 13 make. */
static bool driver_is_old(const cuda_api *api)
{
    int version = 13000;
    return api->cuDriverGetVersion && api->cuDriverGetVersion(&version) == CUDA_SUCCESS && version < 13000;
}

bool cuda_api_library(cuda_api *api, char letter, char *why, size_t size)
{
    void **library = handle_of(api, letter);
    names n = names_of(letter);
    const char *missing = NULL;
    for (int i = letter != 'D' && driver_is_old(api); i < 3 && !*library; i++)
        if (n.file[i]) *library = dlopen(n.file[i], RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        snprintf(why, size, "%s is not there", n.what);
        return false;
    }
#define FIND(from, function)                            \
    if (*#from == letter) {                             \
        void *symbol = dlsym(*library, #function);      \
        memcpy(&api->function, &symbol, sizeof symbol); \
        if (!symbol) missing = #function;               \
    }
    CUDA_FUNCTIONS(FIND)
#undef FIND
    if (missing) snprintf(why, size, "%s is too old: it has no %s", n.what, missing);
    return !missing;
}

bool cuda_api_open(cuda_api *api, char *why, size_t size)
{
    memset(api, 0, sizeof *api);
    return cuda_api_library(api, 'D', why, size) && cuda_api_library(api, 'N', why, size);
}

void cuda_api_close(cuda_api *api)
{
    void *const libraries[] = {api->library_S, api->library_L, api->library_B, api->library_N,
                               api->library_D};
    for (int i = 0; i < 5; i++)
        if (libraries[i]) dlclose(libraries[i]);
    memset(api, 0, sizeof *api);
}
