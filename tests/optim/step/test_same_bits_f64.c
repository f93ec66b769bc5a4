/* Random chains in f64: the same bits fused, link by link and interpreted, on 1, 2 and 4 threads. */
#include "optim/same_bits.h"

static void chains_give_the_same_bits_in_every_way(void **state)
{
    (void)state;
    random_chains_give_the_same_bits_in_every_way(GD_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(chains_give_the_same_bits_in_every_way)};
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
