/* A plugin of qemu (7.2 and later): a program that it runs reads how many instructions it has run from descriptor 1000000 (see
 * count.c).  Debian has no package with qemu-plugin.h: what is used of it stands here. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { COUNTER = 1000000, READ = 63 /* of 64-bit ARM */, INLINE_ADD_U64 = 0 };

typedef uint64_t plugin_id;
struct qemu_plugin_tb; /* a block of translated instructions */
typedef void (*on_block)(plugin_id, struct qemu_plugin_tb *);
typedef void (*on_call)(plugin_id, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, on_call);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t instructions;

static void count_block(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &instructions,
                                             qemu_plugin_tb_n_insns(block));
}

/* The call itself then fails: there is no such descriptor.  A 64-bit guest's addresses are ours. */
static void answer(plugin_id id, unsigned cpu, int64_t number, uint64_t descriptor, uint64_t to, uint64_t a,
                   uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    if (number == READ && descriptor == COUNTER)
        memcpy((void *)(uintptr_t)to, &instructions, sizeof instructions);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc,
                                                               char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_vcpu_syscall_cb(id, answer);
    return 0;
}
