/* Loaded before libc: keeps, next to each file of a ledger, what a loss of power would leave of it.
 *
 * A page that is written is dirty. A sync that succeeds makes the dirty pages durable. One that
 * fails forgets them, as Linux does: the next sync succeeds without them. What is dirty outlives
 * the process, as it does in the kernel. Every PGVEIL_POWER_FAILS-th sync fails; 0 is never. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 65536

struct image {
    char path[PATH_MAX];
    unsigned char *dirty;
    int durable;
};

static struct image images[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long syncs;

static int beside(const char *path, const char *suffix) {
    char name[PATH_MAX + 16];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0) abort();
    return fd;
}

/* The image of a ledger's file or log; none of other files. */
static struct image *image_of(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || (strcmp(name, "/ledger.db") && strcmp(name, "/ledger.db-wal"))) return NULL;
    for (int at = 0; at < 4; at++) {
        struct image *image = &images[at];
        if (!image->path[0]) {
            strcpy(image->path, path);
            image->durable = beside(path, ".durable");
            int dirty = beside(path, ".dirty");
            if (ftruncate64(dirty, PAGES) != 0) abort();
            image->dirty = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, dirty, 0);
            if (image->dirty == MAP_FAILED) abort();
            close(dirty);
        }
        if (!strcmp(image->path, path)) return image;
    }
    abort();
}

static void written(int fd, off64_t at, size_t count) {
    int saved = errno;
    pthread_mutex_lock(&lock);
    struct image *image = image_of(fd);
    if (image && count > 0)
        for (off64_t page = at / PAGE; page <= (at + (off64_t)count - 1) / PAGE; page++) {
            if (page >= PAGES) abort();
            image->dirty[page] = 1;
        }
    pthread_mutex_unlock(&lock);
    errno = saved;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))
typedef ssize_t (*pwriting)(int, const void *, size_t, off64_t);

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    written(fd, at, count);
    return NEXT(pwriting, "pwrite64")(fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    written(fd, at, count);
    return NEXT(pwriting, "pwrite64")(fd, bytes, count, at);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    off64_t at = lseek64(fd, 0, SEEK_CUR);
    if (at >= 0) written(fd, at, count);
    return NEXT(ssize_t(*)(int, const void *, size_t), "write")(fd, bytes, count);
}

static int synced(int fd, const char *name) {
    pthread_mutex_lock(&lock);
    struct image *image = image_of(fd);
    if (!image) {
        pthread_mutex_unlock(&lock);
        return NEXT(int (*)(int), name)(fd);
    }
    const char *fails = getenv("PGVEIL_POWER_FAILS");
    unsigned long every = fails ? strtoul(fails, NULL, 10) : 0;
    int is_failing = every > 0 && ++syncs % every == 0;
    struct stat64 found;
    if (fstat64(fd, &found) != 0) abort();
    for (off64_t page = 0; page < PAGES; page++) {
        char bytes[PAGE];
        if (!image->dirty[page]) continue;
        image->dirty[page] = 0;
        if (is_failing || page * PAGE >= found.st_size) continue;
        ssize_t count = pread64(fd, bytes, PAGE, page * PAGE);
        pwriting copy = NEXT(pwriting, "pwrite64");
        if (copy(image->durable, bytes, count, page * PAGE) != count) abort();
    }
    if (!is_failing && ftruncate64(image->durable, found.st_size) != 0) abort();
    pthread_mutex_unlock(&lock);
    if (is_failing) errno = EIO;
    return is_failing ? -1 : 0;
}

int fsync(int fd) { return synced(fd, "fsync"); }

int fdatasync(int fd) { return synced(fd, "fdatasync"); }
