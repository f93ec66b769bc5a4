/* Folders whose path other users cannot redirect. */
#ifndef GD_BASE_SAFE_FOLDER_H
#define GD_BASE_SAFE_FOLDER_H

#include <stdbool.h>

/* Opens a folder of ours alone (owner, 0700); it and the one above it are made if they are not there.  Returns its
 * descriptor, or -1 if it is not that or if a user other than root and us could replace it: every folder and
 * link on the way must belong to root or us, and no folder may be writable for others unless it is sticky. */
int gd__open_safe_folder(const char *path);

#endif
