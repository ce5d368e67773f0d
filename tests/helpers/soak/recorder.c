/* Preloaded: what a process does to the files below one folder is recorded, killed at or refused.
 *
 * A record: char op, u32 bytes of path, u64 inode, i64 offset, u64 bytes of data; path; data.
 * O opened (offset: 1 created, 2 truncated)   W written at offset   T truncated to offset
 * F flushed   R renamed (path: old, data: new)   U unlinked   M folder made   D folder removed
 * The file `truth` in that folder is what the process has told; it is never refused. Once the process
 * has called soak_strike, it dies at the n-th call from there, or that call fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

static char folder[4096];
static int log_file = -1, counting, fail_with, fired;
static long at, counted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void soak_begin(const char *watched, const char *log) {
    snprintf(folder, sizeof folder, "%s/", watched);
    log_file = *log ? REAL(int, open64, const char *, int, ...)(log, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600) : -1;
}

/* error: 0 kills the process. */
void soak_strike(long n, int error) { at = n; fail_with = error; counted = fired = 0; counting = 1; }
int soak_fired(void) { return fired; }
long soak_counted(void) { return counted; }

static int is_ours(const char *path) { return *folder && !strncmp(path, folder, strlen(folder)); }
static int is_truth(const char *path) { return !strcmp(path + strlen(folder), "truth"); }

static int path_of(int descriptor, char *path) {
    char link[64];
    if (!*folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, 4095);
    path[length < 0 ? 0 : length] = 0;
    return is_ours(path);
}

static void absolute(int base, const char *path, char *whole) {
    char parent[4096] = "";
    if (*path == '/') { snprintf(whole, 4096, "%s", path); return; }
    if (base == AT_FDCWD) { if (!getcwd(parent, sizeof parent)) *parent = 0; }
    else path_of(base, parent);
    snprintf(whole, 4096, "%.2000s/%.2000s", parent, path);
}

static void put(const void *data, size_t size) {
    const char *rest = data;
    while (size) {
        ssize_t done = REAL(ssize_t, write, int, const void *, size_t)(log_file, rest, size);
        if (done <= 0) abort();
        rest += done; size -= done;
    }
}

static void record(char op, const char *path, uint64_t inode, int64_t offset, const void *data, uint64_t size) {
    if (log_file < 0) return;
    uint32_t length = strlen(path);
    put(&op, 1); put(&length, 4); put(&inode, 8); put(&offset, 8); put(&size, 8);
    put(path, length); put(data, size);
}

static uint64_t inode_of(int descriptor) {
    struct stat64 found;
    return REAL(int, fstat64, int, struct stat64 *)(descriptor, &found) ? 0 : found.st_ino;
}

/* Whether this call is the one that fails; it may be the process's last. */
static int is_struck(void) {
    if (!counting || ++counted != at) return 0;
    fired = 1;
    if (!fail_with) { kill(getpid(), SIGKILL); for (;;) pause(); }
    errno = fail_with;
    return 1;
}

static int opened(int base, const char *path, int flags, mode_t mode) {
    char whole[4096];
    absolute(base, path, whole);
    if (!is_ours(whole) || !(flags & (O_WRONLY | O_RDWR | O_CREAT)))
        return REAL(int, openat64, int, const char *, int, ...)(base, path, flags, mode);
    pthread_mutex_lock(&lock);
    int existed = REAL(int, access, const char *, int)(whole, F_OK) == 0, descriptor = -1;
    if (is_truth(whole) || !is_struck()) {
        descriptor = REAL(int, openat64, int, const char *, int, ...)(base, path, flags, mode);
        if (descriptor >= 0)
            record('O', whole, inode_of(descriptor), !existed + 2 * !!(flags & O_TRUNC), "", 0);
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}

#define OPENS(name, first, base) \
    int name(first const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return opened(base, path, flags, mode); \
    }
#define NONE
#define BASE int base,
OPENS(open, NONE, AT_FDCWD)
OPENS(open64, NONE, AT_FDCWD)
OPENS(openat, BASE, base)
OPENS(openat64, BASE, base)

static ssize_t written(int descriptor, const void *data, size_t size, off64_t offset, int moves) {
    char path[4096];
#define WRITE(n) (moves ? REAL(ssize_t, write, int, const void *, size_t)(descriptor, data, n) \
    : REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(descriptor, data, n, offset))
    if (!path_of(descriptor, path)) return WRITE(size);
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    int told = is_truth(path);
    if (!told && counting && counted + 1 == at && !fail_with) WRITE(size / 2); /* dies within it */
    if (told || !is_struck()) {
        done = WRITE(size);
        if (moves && done >= 0) offset = REAL(off64_t, lseek64, int, off64_t, int)(descriptor, 0, SEEK_CUR) - done;
        if (done > 0) record('W', path, inode_of(descriptor), offset, data, done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int descriptor, const void *data, size_t size) { return written(descriptor, data, size, 0, 1); }
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) { return written(descriptor, data, size, offset, 0); }
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) { return written(descriptor, data, size, offset, 0); }

ssize_t sendfile64(int descriptor, int source, off64_t *from, size_t size) {
    char path[4096];
#define SEND() REAL(ssize_t, sendfile64, int, int, off64_t *, size_t)(descriptor, source, from, size)
    if (!path_of(descriptor, path)) return SEND();
    pthread_mutex_lock(&lock);
    off64_t start = from ? *from : REAL(off64_t, lseek64, int, off64_t, int)(source, 0, SEEK_CUR);
    ssize_t done = is_struck() ? -1 : SEND();
    if (done > 0) {
        void *data = malloc(done);
        off64_t end = REAL(off64_t, lseek64, int, off64_t, int)(descriptor, 0, SEEK_CUR);
        if (!data || pread64(source, data, done, start) != done) abort();
        record('W', path, inode_of(descriptor), end - done, data, done);
        free(data);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t sendfile(int descriptor, int source, off_t *from, size_t size) { return sendfile64(descriptor, source, from, size); }

#define ON_FILE(name, op, told, type, argument, call) \
    int name type { \
        char path[4096]; \
        if (!path_of(descriptor, path)) return REAL(int, name, int argument) call; \
        pthread_mutex_lock(&lock); \
        int done = is_struck() ? -1 : REAL(int, name, int argument) call; \
        if (!done) record(op, path, inode_of(descriptor), told, "", 0); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }
#define SIZE , off64_t
ON_FILE(ftruncate, 'T', size, (int descriptor, off_t size), SIZE, (descriptor, size))
ON_FILE(ftruncate64, 'T', size, (int descriptor, off64_t size), SIZE, (descriptor, size))
ON_FILE(fsync, 'F', 0, (int descriptor), , (descriptor))
ON_FILE(fdatasync, 'F', 0, (int descriptor), , (descriptor))

static int renamed(int base, const char *old, int to, const char *new) {
    char from[4096], target[4096];
    absolute(base, old, from); absolute(to, new, target);
    pthread_mutex_lock(&lock);
    int ours = is_ours(from), done = -1;
    if (!ours || !is_struck()) {
        done = REAL(int, renameat, int, const char *, int, const char *)(base, old, to, new);
        if (ours && !done) record('R', from, 0, 0, target, strlen(target));
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new); }

static int named(char op, int base, const char *path, int flags, mode_t mode) {
    char whole[4096];
    absolute(base, path, whole);
    pthread_mutex_lock(&lock);
    int ours = is_ours(whole), done = -1;
    if (!ours || !is_struck()) {
        done = op == 'M' ? REAL(int, mkdirat, int, const char *, mode_t)(base, path, mode)
                         : REAL(int, unlinkat, int, const char *, int)(base, path, flags);
        if (ours && !done) record(op, whole, 0, 0, "", 0);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int unlink(const char *path) { return named('U', AT_FDCWD, path, 0, 0); }
int unlinkat(int base, const char *path, int flags) { return named(flags & AT_REMOVEDIR ? 'D' : 'U', base, path, flags, 0); }
int rmdir(const char *path) { return named('D', AT_FDCWD, path, AT_REMOVEDIR, 0); }
int mkdir(const char *path, mode_t mode) { return named('M', AT_FDCWD, path, 0, mode); }
