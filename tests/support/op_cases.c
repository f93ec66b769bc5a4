#include "support/op_cases.h"

static const op_case_table *const tables[] = {&elementwise_cases, &reduce_cases, &shape_cases, &linear_cases,
                                              &network_cases,     &image_cases,  &make_cases};

int op_case_count(void)
{
    int count = 0;
    for (int i = 0; i < COUNT_OF(tables); i++) count += tables[i]->count;
    return count;
}

const op_case *op_case_at(int k)
{
    int i = 0;
    while (k >= tables[i]->count) k -= tables[i++]->count;
    return &tables[i]->row[k];
}
