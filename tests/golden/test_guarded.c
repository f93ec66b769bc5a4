/* The recorded runs with parameters and data on a device whose memory the host cannot touch: links that look at a
 * tensor's data, or make tensors on the CPU to go with them, fail here as they would on a GPU. */
#define GD_TEST_GUARDED 1
#include "golden/test_golden.c"
