/* Event files; see events.h.
 *
 *   record     u64 length | u32 masked CRC-32C of the length | bytes | u32 masked CRC-32C of the bytes     little-endian
 *   Event      1: double wall_time   2: int64 step   3: string file_version   5: Summary
 *   Summary    1: repeated Value { 1: string tag   2: float simple_value } */
#include "train/run/events.h"
#include "file/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEEP 65536

struct gd_events {
    gd_ctx *ctx;
    gd_text path, buffer, message;
    int fd;
};

/* ---- the format ---- */

uint32_t gd__crc32c(const void *data, size_t size)
{
    /* four bits at a time */
    static const uint32_t table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
                                       0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                       0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
    const uint8_t *b = data;
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= b[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static void little_endian(gd_text *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) gd__text_char(out, (char)(uint8_t)(value >> 8 * i));
}

/* The mask distinguishes checksums of data that contain checksums. */
static void masked_crc(gd_text *out, const void *data, size_t size)
{
    uint32_t crc = gd__crc32c(data, size);
    little_endian(out, (uint32_t)((crc >> 15 | crc << 17) + 0xA282EAD8u), 4);
}

/* Appends one record: length, its check sum, the bytes, their check sum. */
static void tfrecord(gd_text *out, const void *data, size_t size)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)size >> 8 * i);
    gd__text_append(out, (const char *)length, 8);
    masked_crc(out, length, 8);
    gd__text_append(out, data, size);
    masked_crc(out, data, size);
}

static size_t varint_size(uint64_t value)
{
    size_t n = 1;
    while (value >>= 7) n++;
    return n;
}

static void varint(gd_text *out, uint64_t value)
{
    for (; value > 127; value >>= 7) gd__text_char(out, (char)(uint8_t)(value | 128));
    gd__text_char(out, (char)(uint8_t)value);
}

/* A field's number and kind: 0 varint, 1 eight bytes, 2 counted bytes, 5 four bytes. */
static void field(gd_text *out, unsigned number, unsigned kind) { varint(out, number << 3 | kind); }

static void counted(gd_text *out, unsigned number, const char *text, size_t size)
{
    field(out, number, 2);
    varint(out, size);
    gd__text_append(out, text, size);
}

void gd__event_message(gd_text *out, double wall_time, int64_t step, const char *tag, double value)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    field(out, 1, 1);
    little_endian(out, bits, 8);
    if (!tag) {
        counted(out, 3, "brain.Event:2", 13);
        return;
    }
    field(out, 2, 0);
    varint(out, (uint64_t)step);
    size_t length = strlen(tag), inner = 1 + varint_size(length) + length + 5;
    field(out, 5, 2);
    varint(out, 1 + varint_size(inner) + inner);
    field(out, 1, 2);
    varint(out, inner);
    counted(out, 1, tag, length);
    float narrow = (float)value;
    uint32_t narrow_bits;
    memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
    field(out, 2, 5);
    little_endian(out, narrow_bits, 4);
}

/* ---- the file ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* mkdir -p */
static gd_status make_folders(gd_ctx *ctx, const char *folder)
{
    char path[1024];
    size_t length = strlen(folder);
    if (length == 0 || length >= sizeof path)
        return gd_fail(ctx, GD_IO, "a folder name of %zu bytes", length);
    memcpy(path, folder, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        char c = path[i];
        path[i] = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return gd__io_error(ctx, path, "make the folder", errno);
        path[i] = c;
    }
    return GD_OK;
}

static gd_status add_record(gd_events *e, int64_t step, const char *tag, double value)
{
    gd__text_clear(&e->message);
    gd__event_message(&e->message, now(), step, tag, value);
    if (e->message.failed) return GD_NOMEM;
    tfrecord(&e->buffer, e->message.data, e->message.used);
    return e->buffer.failed ? GD_NOMEM : e->buffer.used >= KEEP ? gd__events_flush(e) : GD_OK;
}

gd_events *gd__events_open(gd_ctx *ctx, const char *folder)
{
    gd_events *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    *e = (gd_events){
        .ctx = ctx, .path = gd__text(ctx), .buffer = gd__text(ctx), .message = gd__text(ctx), .fd = -1};
    char host[65] = "localhost";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) (void)snprintf(host, sizeof host, "localhost");
    gd__text_put(&e->path, "%s/events.out.tfevents.%010lld.%s.%ld", folder, (long long)now(), host,
                 (long)getpid());
    gd_status status = e->path.failed ? GD_NOMEM : make_folders(ctx, folder);
    if (!status) {
        e->fd = open(e->path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (e->fd < 0) status = gd__io_error(ctx, e->path.data, "open", errno);
    }
    if (!status) status = add_record(e, 0, NULL, 0);
    if (!status) status = gd__events_flush(e);
    if (!status) return e;
    e->buffer.used = 0;
    (void)gd__events_close(e);
    return NULL;
}

gd_status gd__events_scalar(gd_events *e, const char *tag, int64_t step, double value)
{
    return add_record(e, step, tag, value);
}

gd_status gd__events_flush(gd_events *e)
{
    off_t whole = lseek(e->fd, 0, SEEK_END);
    for (size_t at = 0; at < e->buffer.used;) {
        ssize_t put = write(e->fd, e->buffer.data + at, e->buffer.used - at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            gd_status status = gd__io_error(e->ctx, e->path.data, "write", errno);
            /* readers stop at an incomplete record */
            if (whole >= 0 && ftruncate(e->fd, whole) != 0) status = GD_IO;
            gd__text_clear(&e->buffer);
            return status;
        }
        at += (size_t)put;
    }
    gd__text_clear(&e->buffer);
    return GD_OK;
}

gd_status gd__events_close(gd_events *e)
{
    if (!e) return GD_OK;
    gd_status status = e->buffer.used ? gd__events_flush(e) : GD_OK;
    if (e->fd >= 0 && close(e->fd) != 0 && errno != EINTR && !status)
        status = gd__io_error(e->ctx, e->path.data, "close", errno);
    gd__text_free(&e->path);
    gd__text_free(&e->buffer);
    gd__text_free(&e->message);
    gd__free(e->ctx, e, sizeof *e);
    return status;
}
