/* Traces and event files. */
#include "support/support.h"

#include "train/run/events.h"
#include "file/run_log.h"

#include <dirent.h>
#include <glob.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static memory counted;
static gd_ctx *ctx;
static char folder[64];

static int start(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gradus_trace_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    ctx = context(&counted, 1, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    end_context(ctx, &counted);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static char *read_file(const char *path, size_t *size)
{
    static char data[1 << 17];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *size = fread(data, 1, sizeof data - 1, f);
    data[*size] = 0;
    fclose(f);
    return data;
}

/* ---- traces ---- */

static void lines_have_the_documented_form(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    const char *names[] = {"p", "b", "W"};
    gd_tensor *params[] = {VECTOR(ctx, -1.1, 2.5), gd_scalar(ctx, GD_F32, 0.5),
                           MATRIX(ctx, 2, 2, 1, 2, 3, NAN)};
    gd_text out = gd__text(ctx);
    assert_int_equal(
        gd__run_log_line(&out, &(gd_run_numbers){1, 170.81999999999994, 3.5, 3}, names, params, 3), GD_OK);
    assert_int_equal(gd__run_log_line(&out, &(gd_run_numbers){2, INFINITY, NAN, 4}, names, params, 0), GD_OK);
    assert_string_equal(out.data,
                        "{\"step\":1,\"loss\":170.81999999999994,\"loss_after\":3.5,\"evals\":3,\"params\":{"
                        "\"p\":[-1.1000000000000001,2.5],\"b\":0.5,\"W\":[[1,2],[3,\"NaN\"]]}}\n"
                        "{\"step\":2,\"loss\":\"Infinity\",\"evals\":4,\"params\":{}}\n");
    gd__text_free(&out);
    gd_scope_end(ctx);
}

static void written_traces_are_read_back(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/run.jsonl", folder);
    gd_run_writer *tracer = gd__run_writer_open(ctx, path);
    assert_non_null(tracer);
    const char *names[] = {"p"};
    for (int64_t i = 1; i <= 2000; i++) {
        gd_scope_begin(ctx);
        gd_tensor *p = VECTOR(ctx, 1.0 / (double)i, (double)i);
        gd_run_numbers numbers = {i, i == 5 ? NAN : 1.0 / (double)(3 * i), NAN, 2 * i};
        assert_int_equal(gd__run_writer_step(tracer, &numbers, names, &p, 1), GD_OK);
        gd_scope_end(ctx);
    }
    assert_int_equal(gd__run_writer_close(tracer), GD_OK);
    gd_run_log trace;
    assert_int_equal(gd__run_log_load(ctx, path, NULL, "loss", &trace), GD_OK);
    assert_int_equal(trace.count, 2000);
    assert_string_equal(trace.axis[0], "p[0]");
    assert_string_equal(trace.axis[1], "p[1]");
    assert_non_null(trace.x);
    for (int i = 0; i < 2000; i++) {
        assert_true(trace.step[i] == i + 1 && trace.evals[i] == 2 * (i + 1));
        /* of its parameters: that of the next step; where nobody knows it, its own */
        int of = i == 1999 || i == 3 ? i + 1 : i + 2;
        assert_true(trace.loss[i] == 1.0 / (double)(3 * of));
        assert_true(trace.x[i] == 1.0 / (double)(i + 1) && trace.y[i] == i + 1);
    }
    gd__run_log_free(&trace);
}

/* Step 0 is where the run began, with the loss that the first step found there, or that is said when there was none. */
static void the_loss_after_a_step_begins_with_that_of_the_start(void **state)
{
    (void)state;
    const char *text = "{\"step\":0,\"loss\":25,\"evals\":0,\"params\":{\"p\":[3,4]}}\n"
                       "{\"step\":1,\"loss\":25,\"loss_after\":2,\"evals\":2,\"params\":{\"p\":[1,1]}}\n";
    gd_run_log trace;
    assert_int_equal(gd__run_log_parse(ctx, "t.jsonl", text, strlen(text), "loss_after", &trace), GD_OK);
    assert_int_equal(trace.count, 2);
    assert_true(trace.loss[0] == 25 && trace.loss[1] == 2);
    gd__run_log_free(&trace);
}

static void the_start_is_step_0(void **state)
{
    (void)state;
    for (int steps = 0; steps < 2; steps++) {
        char path[128];
        snprintf(path, sizeof path, "%s/start.jsonl", folder);
        gd_run_writer *tracer = gd__run_writer_open(ctx, path);
        assert_non_null(tracer);
        const char *name = "p";
        gd_scope_begin(ctx);
        gd_tensor *p = VECTOR(ctx, 3, 4);
        assert_int_equal(gd__run_writer_start(tracer, &name, &p, 1), GD_OK);
        if (steps) assert_int_equal(gd_fill(p, 1), GD_OK);
        gd_run_numbers first = {1, 25, 2, 1};
        if (steps) assert_int_equal(gd__run_writer_step(tracer, &first, &name, &p, 1), GD_OK);
        assert_int_equal(gd__run_writer_last(tracer, 25, &name, &p, 1), GD_OK);
        gd_scope_end(ctx);
        assert_int_equal(gd__run_writer_close(tracer), GD_OK);
        size_t size;
        const char *start = "{\"step\":0,\"loss\":25,\"evals\":0,\"params\":{\"p\":[3,4]}}\n";
        char *text = read_file(path, &size);
        assert_memory_equal(text, start, strlen(start));
        assert_string_equal(
            text + strlen(start),
            steps ? "{\"step\":1,\"loss\":25,\"loss_after\":2,\"evals\":1,\"params\":{\"p\":[1,1]}}\n" : "");
        /* what is drawn for a line is the loss of its parameters */
        gd_run_log trace;
        assert_int_equal(gd__run_log_load(ctx, path, NULL, "loss", &trace), GD_OK);
        assert_int_equal(trace.count, 1 + steps);
        assert_true(trace.loss[0] == 25 && trace.loss[steps] == (steps ? 2 : 25));
        gd__run_log_free(&trace);
    }
}

static gd_status parse(const char *text, gd_run_log *trace)
{
    return gd__run_log_parse(ctx, "t.jsonl", text, strlen(text), "loss", trace);
}

static void parameters_other_than_two_numbers_are_no_path(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"step\":1,\"loss\":1}\n",
        "{\"step\":1,\"loss\":1,\"params\":{\"a\":[1,2,3]}}\n",
        "{\"step\":1,\"loss\":1,\"params\":{\"a\":1}}\n",
        "{\"step\":1,\"loss\":1,\"params\":{\"a\":1,\"b\":2}}\n\n{\"step\":2,\"loss\":1,\"params\":{}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gd_run_log trace;
        assert_int_equal(parse(texts[i], &trace), GD_OK);
        assert_null(trace.x);
        assert_true(isnan(trace.evals[0]));
        gd__run_log_free(&trace);
    }
}

static void malformed_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {{"", "t.jsonl: the trace is empty"},
                 {" \n\n", "t.jsonl: the trace is empty"},
                 {"{\"step\":1,\"loss\":1}\n[]\n", "t.jsonl: line 2: not a JSON object"},
                 {"{\"step\":1,\"loss\":1}\n\n{\"step\"", "t.jsonl: line 3: "},
                 {"{\"loss\":1}\n", "t.jsonl: line 1: no number \"step\""},
                 {"{\"step\":1}\n", "t.jsonl: line 1: no number \"loss\""},
                 {"{\"step\":1,\"step\":2,\"loss\":1}\n", "t.jsonl: line 1: "},
                 {"x,y\n1,2\n", "t.jsonl: line 1: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_run_log trace;
        assert_int_equal(parse(cases[i].text, &trace), GD_FORMAT);
        assert_error(ctx, GD_FORMAT, cases[i].error);
        gd__run_log_free(&trace);
    }
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    gd_run_writer *tracer = gd__run_writer_open(ctx, "/dev/full");
    assert_int_equal(gd__run_writer_step(tracer, &(gd_run_numbers){1, 1, NAN, 1}, NULL, NULL, 0), GD_OK);
    assert_int_equal(gd__run_writer_close(tracer), GD_IO);
    assert_error(ctx, GD_IO, "/dev/full: cannot write: No space left on device");
    assert_null(gd__run_writer_open(ctx, "/nowhere/run.jsonl"));
    assert_error(ctx, GD_IO, "/nowhere/run.jsonl: cannot open: No such file or directory");
}

/* ---- event files ---- */

/* RFC 3720, B.4, and the check value of the CRC catalogue. */
static void crc32c_agrees_with_published_values(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(gd__crc32c("123456789", 9), 0xE3069283u);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(gd__crc32c(bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(gd__crc32c(bytes, 32), 0x62A8AB43u);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(gd__crc32c(bytes, 32), 0x46DD794Eu);
}

static void messages_are_protocol_buffers(void **state)
{
    (void)state;
    gd_text out = gd__text(ctx);
    gd__event_message(&out, 0, 300, "a", 1);
    static const unsigned char scalar[] = {0x09, 0,    0,    0,    0,    0,    0,    0,
                                           0,    0x10, 0xAC, 0x02, 0x2A, 0x0A, 0x0A, 0x08,
                                           0x0A, 0x01, 'a',  0x15, 0,    0,    0x80, 0x3F};
    assert_int_equal(out.used, sizeof scalar);
    assert_memory_equal(out.data, scalar, sizeof scalar);
    gd__text_clear(&out);
    gd__event_message(&out, 1, 0, NULL, 0);
    static const unsigned char version[] = {0x09, 0,   0,   0,   0,   0,   0,   0xF0, 0x3F, 0x1A, 0x0D, 'b',
                                            'r',  'a', 'i', 'n', '.', 'E', 'v', 'e',  'n',  't',  ':',  '2'};
    assert_int_equal(out.used, sizeof version);
    assert_memory_equal(out.data, version, sizeof version);
    gd__text_free(&out);
}

static uint64_t little_endian(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;) v = v << 8 | (unsigned char)at[i];
    return v;
}

static uint32_t mask(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

static void event_files_are_whole_records(void **state)
{
    (void)state;
    char runs[128], path[512];
    snprintf(runs, sizeof runs, "%s/runs/a", folder);
    gd_events *events = gd__events_open(ctx, runs);
    assert_non_null(events);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(gd__events_scalar(events, "train/loss", i, 1.0 / (i + 1)), GD_OK);
    assert_int_equal(gd__events_close(events), GD_OK);
    glob_t found;
    snprintf(path, sizeof path, "%s/events.out.tfevents.*", runs);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    size_t size, records = 0;
    const char *data = read_file(found.gl_pathv[0], &size);
    globfree(&found);
    for (size_t at = 0; at < size; records++) {
        uint64_t length = little_endian(data + at, 8);
        assert_true(at + 16 + length <= size);
        assert_int_equal(little_endian(data + at + 8, 4), mask(gd__crc32c(data + at, 8)));
        assert_int_equal(little_endian(data + at + 12 + length, 4), mask(gd__crc32c(data + at + 12, length)));
        at += 16 + length;
    }
    assert_int_equal(records, 2001);
    assert_null(gd__events_open(ctx, "/proc/nowhere"));
    assert_int_equal(gd_error(ctx), GD_IO);
    gd_clear_error(ctx);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *text = "{\"step\":1,\"loss\":1,\"params\":{\"a\":1,\"b\":2}}\n";
    char runs[128];
    snprintf(runs, sizeof runs, "%s/oom", folder);
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *own = context(&m, 1, NULL);
        gd_tensor *p = VECTOR(own, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17);
        const char *name = "p";
        m.fail_at = m.requests + k;
        gd_run_log trace;
        gd_status status = gd__run_log_parse(own, "t", text, strlen(text), "loss", &trace);
        gd__run_log_free(&trace);
        gd_text out = gd__text(own);
        if (!status) status = gd__run_log_line(&out, &(gd_run_numbers){1, 2, 1.5, 3}, &name, &p, 1);
        gd__text_free(&out);
        gd_events *events = status ? NULL : gd__events_open(own, runs);
        if (!events) status = GD_NOMEM;
        if (!status) status = gd__events_scalar(events, "loss", 1, 2);
        gd_status closed = gd__events_close(events);
        bool done = !m.failed;
        assert_true(done == (!status && !closed));
        gd_release(p);
        end_context(own, &m);
        if (done) break;
    }
}

static void rows_without_elements_end(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        const char *text;
    } cases[] = {{2, "[[],[]]"}, {(int64_t)1 << 40, "[]"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_text text = {.ctx = ctx};
        gd_tensor *t = gd_zeros(ctx, GD_F64, 2, (int64_t[]){cases[i].rows, 0});
        assert_int_equal(gd__json_tensor(&text, t), GD_OK);
        assert_string_equal(text.data, cases[i].text);
        gd_release(t);
        gd__text_free(&text);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_have_the_documented_form),
        TEST(written_traces_are_read_back),
        TEST(the_loss_after_a_step_begins_with_that_of_the_start),
        TEST(the_start_is_step_0),
        TEST(parameters_other_than_two_numbers_are_no_path),
        TEST(rows_without_elements_end),
        TEST(malformed_lines_are_named),
        TEST(a_full_disk_is_reported),
        TEST(crc32c_agrees_with_published_values),
        TEST(messages_are_protocol_buffers),
        TEST(event_files_are_whole_records),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
