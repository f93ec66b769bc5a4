/* Folders whose path other users cannot redirect. */
#ifndef GD_BASE_SAFE_FOLDER_H
#define GD_BASE_SAFE_FOLDER_H

#include <stdbool.h>

/* Opens a folder that only we can use (owner, 0700); it and its parent are created if missing.  Returns its
 * descriptor, or -1 if it has other permissions, or if a user other than root and us could replace it: every folder and
 * link on the way must belong to root or us, and no folder may be writable for others unless it is sticky. */
int gd__open_safe_folder(const char *path);

#endif
