/* Opens the driver and NCCL by whatever name the system has them under. */
#define _GNU_SOURCE /* dlinfo */
#include "plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static void *open_first(const char *const *file)
{
    void *library = NULL;
    for (; *file && !library; file++) library = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

/* NVIDIA's packages for Python have folders beside each other: where NVRTC was loaded from one of them, NCCL's is
 * site-packages/nvidia/nccl. */
static void *open_beside(const char *const *loaded)
{
    struct link_map *map = NULL;
    char path[4096];
    void *library = NULL;
    for (; *loaded && !library; loaded++) library = dlopen(*loaded, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return NULL;
    char *folder = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map ? strstr(map->l_name, "/nvidia/")
                                                                      : NULL;
    int used = folder ? snprintf(path, sizeof path, "%.*s/nvidia/nccl/lib/libnccl.so.2",
                                 (int)(folder - map->l_name), map->l_name)
                      : -1;
    dlclose(library);
    return used > 0 && used < (int)sizeof path ? open_first((const char *const[]){path, NULL}) : NULL;
}

bool nccl_api_open(nccl_api *api, char *why, size_t size)
{
    const char *missing = NULL;
    memset(api, 0, sizeof *api);
    api->driver = open_first((const char *const[]){"libcuda.so.1", "libcuda.so", NULL});
    api->nccl = open_first((const char *const[]){"libnccl.so.2", "libnccl.so", NULL});
    if (!api->nccl) api->nccl = open_beside((const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12", NULL});
    if (!api->driver || !api->nccl) {
        (void)snprintf(why, size, "%s is not there",
                       api->driver ? "NCCL (libnccl.so.2)" : "the NVIDIA driver (libcuda.so.1)");
        return false;
    }
#define FIND(library, function)                                                      \
    {                                                                                \
        void *symbol = dlsym(*#library == 'D' ? api->driver : api->nccl, #function); \
        memcpy(&api->function, &symbol, sizeof symbol);                              \
        if (!symbol) missing = #function;                                            \
    }
    NCCL_FUNCTIONS(FIND)
#undef FIND
    if (missing)
        (void)snprintf(why, size, "%s is too old: it has no %s",
                       *missing == 'n' ? "NCCL (libnccl.so.2)" : "the NVIDIA driver (libcuda.so.1)", missing);
    return !missing;
}

void nccl_api_close(nccl_api *api)
{
    if (api->nccl) dlclose(api->nccl);
    if (api->driver) dlclose(api->driver);
    memset(api, 0, sizeof *api);
}

void nccl_version(const nccl_api *api, char *text, size_t size)
{
    int code = 0;
    (void)api->ncclGetVersion(&code);
    int scale = code < 10000 ? 1000 : 10000; /* before 2.9 the minor version had one digit */
    (void)snprintf(text, size, "NCCL %d.%d.%d", code / scale, code % scale / 100, code % 100);
}
