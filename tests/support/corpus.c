#include "support/corpus.h"

#include "support/support.h"

#include <dirent.h>

static void replay_file(gd_ctx *ctx, const char *path, corpus_fn replay)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    corpus_file file = {.path = path, .size = (size_t)ftell(f)};
    rewind(f);
    file.data = calloc(file.size + 1, 1);
    assert_non_null(file.data);
    assert_int_equal(fread(file.data, 1, file.size, f), file.size);
    fclose(f);
    replay(ctx, &file);
    free(file.data);
}

void replay_corpus(gd_ctx *ctx, const char *folder, int least, corpus_fn replay)
{
    DIR *files = opendir(folder);
    assert_non_null(files);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(files));) {
        char path[1024];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(ctx, path, replay);
        count++;
    }
    closedir(files);
    assert_true(count >= least);
}
