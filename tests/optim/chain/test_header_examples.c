/* Chains and schedules that the public headers show can be read.  That the C in them compiles is install/examples. */
#include "gradus/gradus.h"
#include "support/support.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define HEADERS GD_TEST_DIR "/../include/gradus"

static char text[1 << 17];

static void read_header(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, HEADERS "/%s", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t length = fread(text, 1, sizeof text - 1, f);
    text[length] = 0;
    fclose(f);
}

static void expect_chain(gd_ctx *ctx, const char *header, const char *chain)
{
    gd_link *link = gd_chain(ctx, chain);
    if (!link) fail_msg("%s: '%s': %s", header, chain, gd_error_text(ctx));
    gd_link_release(link);
}

/* The texts in calls like gd_chain(ctx, "..."). */
static int chains_of(gd_ctx *ctx, const char *header)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, "gd_chain(ctx, \"")); count++) {
        char chain[512];
        at += strlen("gd_chain(ctx, \"");
        int length = 0;
        for (; *at && *at != '"' && length < 511; at++) {
            if (*at == '\\') at++;
            chain[length++] = *at;
        }
        chain[length] = 0;
        expect_chain(ctx, header, chain);
    }
    return count;
}

/* Of the headers in a folder of HEADERS: "" or "link/". */
static int chains_of_folder(gd_ctx *ctx, const char *name)
{
    char header[1024];
    snprintf(header, sizeof header, HEADERS "/%s", name);
    DIR *folder = opendir(header);
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".h")) continue;
        snprintf(header, sizeof header, "%s%s", name, entry->d_name);
        read_header(header);
        count += chains_of(ctx, header);
    }
    closedir(folder);
    return count;
}

static void every_chain_in_a_call_can_be_read(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    assert_true(chains_of_folder(ctx, "") >= 2);
    chains_of_folder(ctx, "link/");
    gd_ctx_free(ctx);
}

/* Calls fn for what stands on example lines, apart by three blanks and more, and looks like a call or a bracket. */
static int each_item(const char *header, void (*fn)(gd_ctx *ctx, const char *header, const char *item))
{
    int count = 0;
    gd_ctx *ctx = gd_ctx_new(NULL);
    read_header(header);
    for (char *next, *line = text; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        if (strncmp(line, " *     ", 7) != 0) continue;
        char *end = strstr(line, " */");
        if (end) *end = 0;
        for (char *item = line + 7, *rest; item; item = rest) {
            rest = strstr(item, "   ");
            if (rest) *rest++ = 0;
            while (rest && *rest == ' ') rest++;
            size_t length = strlen(item);
            if (!length || !strchr(item, '(') || (item[length - 1] != ')' && item[length - 1] != ']'))
                continue;
            fn(ctx, header, item);
            count++;
        }
    }
    gd_ctx_free(ctx);
    return count;
}

static void expect_schedule(gd_ctx *ctx, const char *header, const char *item)
{
    gd_schedule schedule;
    if (gd_schedule_parse(ctx, item, &schedule)) fail_msg("%s: '%s': %s", header, item, gd_error_text(ctx));
}

static void every_example_of_the_chain_language_can_be_read(void **state)
{
    (void)state;
    assert_true(each_item("chain.h", expect_chain) >= 5);
}

static void every_example_of_a_schedule_can_be_read(void **state)
{
    (void)state;
    assert_true(each_item("schedule.h", expect_schedule) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chain_in_a_call_can_be_read),
        cmocka_unit_test(every_example_of_the_chain_language_can_be_read),
        cmocka_unit_test(every_example_of_a_schedule_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
