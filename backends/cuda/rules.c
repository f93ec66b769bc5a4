/* Fused optimizer programs: kernels from emitted source, each started with one struct of arguments. */
#include "plugin.h"

void *cuda_program(gd_device *device, const char *source, const char *name)
{
    CUfunction kernel = NULL;
    return cuda_kernel(device, name, source, name, &kernel) ? NULL : kernel;
}

gd_status cuda_program_launch(gd_device *device, const gd_launch *launch)
{
    return cuda_launch(device, launch->kernel, launch->blocks, launch->threads, 0, (void *[]){launch->args});
}
