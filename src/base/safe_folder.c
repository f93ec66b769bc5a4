/* The path is resolved one name at a time, from descriptor to descriptor: the checked folder is the open one, and a rename meanwhile has
 * no effect. An entry can be renamed by users who may write its folder
 * (in a sticky one only the owners of folder and entry).  So when every folder and every link on the way is root's or
 * ours and not writable for others, or sticky, the same path also leads there the next time. */
#define _GNU_SOURCE /* O_PATH, which opens folders without read permission */
#include "base/safe_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 40 /* as the kernel */
#if defined(O_PATH)
#define PASSING O_PATH
#elif defined(O_SEARCH)
#define PASSING O_SEARCH
#else
#define PASSING O_RDONLY
#endif

typedef struct walk {
    int at; /* the folder reached */
    int links;
    char rest[PATH_MAX]; /* of the path */
} walk;

static bool is_trusted(uid_t owner) { return owner == 0 || owner == geteuid(); }

static bool is_steady(const struct stat *s)
{
    return S_ISDIR(s->st_mode) && is_trusted(s->st_uid) && (!(s->st_mode & 022) || s->st_mode & S_ISVTX);
}

/* Continues from a different folder; takes the descriptor. */
static bool move_to(walk *w, int folder)
{
    struct stat s;
    if (w->at >= 0) close(w->at);
    w->at = folder;
    return folder >= 0 && fstat(folder, &s) == 0 && is_steady(&s);
}

static bool start_at_root(walk *w) { return move_to(w, open("/", PASSING | O_DIRECTORY | O_CLOEXEC)); }

/* Removes the first name of the rest; false at the end of the path. */
static bool next_name(walk *w, char name[NAME_MAX + 1])
{
    size_t from = strspn(w->rest, "/"), length = strcspn(w->rest + from, "/");
    if (!length || length > NAME_MAX) return false;
    memcpy(name, w->rest + from, length);
    name[length] = 0;
    memmove(w->rest, w->rest + from + length, strlen(w->rest + from + length) + 1);
    return true;
}

/* At most one name remains. */
static bool is_near_end(const walk *w)
{
    size_t from = strspn(w->rest, "/");
    return !strchr(w->rest + from, '/');
}

/* Prepends the target of the link to the rest.  It is the link that was checked, since only trusted users may rename it. */
static bool follow(walk *w, const char *link)
{
    char target[PATH_MAX], path[PATH_MAX];
    ssize_t length = readlinkat(w->at, link, target, sizeof target);
    if (length <= 0 || ++w->links > MOST_LINKS) return false;
    if (!w->rest[strspn(w->rest, "/")]) return false; /* the folder itself is not a link */
    int n = snprintf(path, sizeof path, "%.*s%s", (int)length, target, w->rest);
    if (n >= (int)sizeof path) return false;
    memcpy(w->rest, path, (size_t)n + 1);
    return *path != '/' || start_at_root(w);
}

static bool enter(walk *w, const char *name)
{
    struct stat s;
    bool known = fstatat(w->at, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (!known && errno == ENOENT && is_near_end(w)) {
        (void)mkdirat(w->at, name, 0700);
        known = fstatat(w->at, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    }
    if (!known) return false;
    if (S_ISLNK(s.st_mode)) return is_trusted(s.st_uid) && follow(w, name);
    return move_to(w, openat(w->at, name, PASSING | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static bool begin(walk *w, const char *path)
{
    char here[PATH_MAX] = "";
    if (*path != '/' && !getcwd(here, sizeof here)) return false;
    int n = snprintf(w->rest, sizeof w->rest, "%s/%s", here, path);
    return n < (int)sizeof w->rest && start_at_root(w);
}

int gd__open_safe_folder(const char *path)
{
    walk w = {.at = -1};
    char name[NAME_MAX + 1];
    struct stat s;
    int folder = -1;
    bool steady = *path && begin(&w, path);
    while (steady && next_name(&w, name)) steady = enter(&w, name);
    if (steady && !w.rest[strspn(w.rest, "/")])
        folder = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.at >= 0) close(w.at);
    if (folder < 0) return -1;
    if (fstat(folder, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & 077)) return folder;
    close(folder);
    return -1;
}
