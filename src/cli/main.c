/* gradus, the program. */
#include "cli/cli.h"

int main(int argc, char **argv) { return gd__cli_main(argc > 0 ? argc - 1 : 0, argv + (argc > 0)); }
