/* Uses what a plan says, and knows nothing of what anybody expects to come of that.
 *
 *     player PLAN
 *
 * The plan is lines of words; amounts hold until the next one, times are seconds since this process began, or since
 * `origin` (seconds since 1970) for a line that begins with `clock`. Before the origin nothing begins, so that all who
 * are there by then begin together:
 *
 *     end 12.5 1               exit by itself after 12.5 s with code 1
 *     stop 3 143               after SIGTERM go on for 3 s, then exit with 143
 *     origin 1767225600.25
 *     age memory - 0 1048576 0.1 2097152
 *     clock cpu - 0 0.5 10 1.5
 *     age file /data 5 4096
 *
 * Measures: memory and child (anonymous bytes, of this process and of a child), active and inactive (page cache),
 * file (disk or tmpfs below a folder), inodes, logs, pids (threads: they weigh least), cpu (cores).
 * What the system refuses (no space, no more processes) is tried again at the next tick.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* headers older than Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#define MOST_LINES 64
#define MOST_FILES 65536
#define LINE_ON_DISK 1000 /* a line of a log with what its keeper puts before it */
#define KEEPERS_PREFIX 46
#define PIPE_BYTES 1048576 /* in each tick the keeper takes no more */
#define PHRASE 95 /* of a line: as logs do, it says what is new in a few words, and repeats the others */
#define NEWS 8
#define TICK_NANOS 50000000L
#define WINDOW 0.1 /* in which a share of a core is used: the period of a quota */
#define TOUCH_SECONDS 5.0 /* a kernel that is short finds pages in use in that time */
#define CHUNK 65536
#define STACK_BYTES 16384
#define OWN_BYTES 270336.0
#define MEMORY_PER_PAGE_TABLE 512

struct line {
    char measure[16], folder[PATH_MAX];
    int by_clock;
    size_t rows, at;
    double *seconds, *amounts, most;
};

static struct line lines[MOST_LINES];
static int line_count;
static double began, origin, end_after = -1, stop_after = 0;
static int end_code = 0, stop_code = 143;
static volatile sig_atomic_t asked_to_stop;
static volatile double share_of_each; /* of a core, for each thread that works */

static double clock_of(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "player: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *allocated(void *before, size_t bytes) {
    void *found = realloc(before, bytes);
    if (!found) fail("memory");
    return found;
}

/* -- the plan */

static void read_rows(struct line *line, char **rest) {
    char *word;
    while ((word = strtok_r(NULL, " \n", rest))) {
        char *second = strtok_r(NULL, " \n", rest);
        if (!second) break;
        if (line->rows % 1024 == 0) {
            line->seconds = allocated(line->seconds, (line->rows + 1024) * sizeof(double));
            line->amounts = allocated(line->amounts, (line->rows + 1024) * sizeof(double));
        }
        line->seconds[line->rows] = strtod(word, NULL);
        line->amounts[line->rows] = strtod(second, NULL);
        if (line->amounts[line->rows] > line->most) line->most = line->amounts[line->rows];
        line->rows++;
    }
}

static void read_plan(const char *path) {
    FILE *plan = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!plan) fail(path);
    while (getline(&text, &size, plan) >= 0) {
        char *rest, *word = strtok_r(text, " \n", &rest);
        if (!word) continue;
        if (!strcmp(word, "origin")) {
            origin = strtod(strtok_r(NULL, " \n", &rest), NULL);
        } else if (!strcmp(word, "end")) {
            end_after = strtod(strtok_r(NULL, " \n", &rest), NULL);
            end_code = atoi(strtok_r(NULL, " \n", &rest));
        } else if (!strcmp(word, "stop")) {
            stop_after = strtod(strtok_r(NULL, " \n", &rest), NULL);
            stop_code = atoi(strtok_r(NULL, " \n", &rest));
        } else if (line_count < MOST_LINES) {
            struct line *line = &lines[line_count++];
            line->by_clock = !strcmp(word, "clock");
            snprintf(line->measure, sizeof line->measure, "%s", strtok_r(NULL, " \n", &rest));
            snprintf(line->folder, sizeof line->folder, "%s", strtok_r(NULL, " \n", &rest));
            read_rows(line, &rest);
        }
    }
    free(text);
    fclose(plan);
}

/* What the line says now: rows are in the order of time, which never runs back. */
static double amount(struct line *line) {
    double now = line->by_clock ? clock_of(CLOCK_REALTIME) - origin : clock_of(CLOCK_MONOTONIC) - began;
    while (line->at + 1 < line->rows && line->seconds[line->at + 1] <= now) line->at++;
    return line->rows && line->seconds[line->at] <= now ? line->amounts[line->at] : 0;
}

static struct line *line_of(const char *measure) {
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].measure, measure)) return &lines[i];
    return NULL;
}

/* -- memory */

struct memory {
    char *base;
    size_t room, used, page;
};

static void reserve(struct memory *memory, double most) {
    memory->page = sysconf(_SC_PAGESIZE);
    memory->room = ((size_t)most / memory->page + 1) * memory->page;
    memory->base = mmap(NULL, memory->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory->base == MAP_FAILED) fail("address space");
    madvise(memory->base, memory->room, MADV_NOHUGEPAGE);
}

/* What a process is made of (its own pages, its stack in the kernel, its page tables) is part of what it uses. */
static void use_memory(struct memory *memory, double wanted) {
    double rest = wanted - OWN_BYTES - wanted / MEMORY_PER_PAGE_TABLE;
    size_t target = rest > 0 ? (size_t)rest / memory->page * memory->page : 0;
    if (target > memory->room) target = memory->room;
    if (memory->used < target) { /* in one call: faults would cost more cpu than the plan speaks of */
        if (!madvise(memory->base + memory->used, target - memory->used, MADV_POPULATE_WRITE)) memory->used = target;
        for (; memory->used < target; memory->used += memory->page) memory->base[memory->used] = 1;
    }
    if (memory->used > target) {
        madvise(memory->base + target, memory->used - target, MADV_DONTNEED);
        memory->used = target;
    }
}

static void play_child(struct line *line) {
    struct timespec tick = {0, TICK_NANOS};
    struct memory memory = {0};
    if (fork()) return;
    signal(SIGTERM, SIG_DFL);
    reserve(&memory, line->most);
    for (;; nanosleep(&tick, NULL)) use_memory(&memory, amount(line));
}

/* -- cpu and processes */

static void rest_until(double moment) {
    struct timespec at = {(time_t)moment, (long)((moment - (time_t)moment) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* In windows that do not drift: whoever wakes late has less of one, not fewer. */
static void *work(void *unused) {
    double end = clock_of(CLOCK_MONOTONIC);
    (void)unused;
    for (;;) {
        double now = clock_of(CLOCK_MONOTONIC), used = clock_of(CLOCK_THREAD_CPUTIME_ID);
        end = now - end > WINDOW ? now + WINDOW : end + WINDOW;
        while (now < end && clock_of(CLOCK_THREAD_CPUTIME_ID) - used < share_of_each * WINDOW)
            now = clock_of(CLOCK_MONOTONIC);
        if (now < end) rest_until(end);
    }
    return NULL;
}

static void *idle(void *unused) {
    (void)unused;
    for (;;) pause();
    return NULL;
}

static int begin_thread(void *(*body)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN > STACK_BYTES ? PTHREAD_STACK_MIN : STACK_BYTES);
    return !pthread_create(&thread, &attributes, body, NULL);
}

static void use_cpu(struct line *line) {
    static int workers;
    double wanted = amount(line);
    while (workers < line->most && begin_thread(work)) workers++;
    share_of_each = workers ? wanted / workers : 0;
}

static void use_processes(struct line *line) {
    static int threads = 1; /* they stay: a plan that wants fewer again gets them back with the container */
    while (threads < amount(line) && begin_thread(idle)) threads++;
}

/* -- files */

static int opened(struct line *line, const char *name) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", line->folder, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void use_disk(struct line *line, int index) {
    static int files[MOST_LINES];
    char name[32];
    struct stat now;
    off_t wanted = (off_t)amount(line);
    if (!files[index]) {
        snprintf(name, sizeof name, ".played-%d", index);
        int made = opened(line, name);
        if (made < 0) return;
        files[index] = made;
    }
    if (fstat(files[index], &now)) return;
    if (wanted < now.st_size && ftruncate(files[index], wanted)) return;
    if (wanted > now.st_size && fallocate(files[index], 0, now.st_size, wanted - now.st_size)) return;
}

static void use_inodes(struct line *line) {
    static int made;
    char path[PATH_MAX + 32];
    int wanted = amount(line) > MOST_FILES ? MOST_FILES : (int)amount(line);
    for (; made < wanted; made++) {
        snprintf(path, sizeof path, "%s/.inode-%d", line->folder, made);
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0) return;
        close(file);
    }
    for (; made > wanted; made--) {
        snprintf(path, sizeof path, "%s/.inode-%d", line->folder, made - 1);
        unlink(path);
    }
}

/* Holes of a sparse file fill the page cache and no disk. Pages that are read twice count as in use. */
static void use_cache(struct line *line, int is_active) {
    static struct { int file; off_t size; double touched; } caches[2];
    static char chunk[CHUNK];
    off_t wanted = (off_t)amount(line), from = caches[is_active].size;
    double now = clock_of(CLOCK_MONOTONIC);
    if (!caches[is_active].file) {
        int made = opened(line, is_active ? ".active" : ".inactive");
        if (made < 0) return;
        caches[is_active].file = made;
    }
    if (wanted != from && ftruncate(caches[is_active].file, wanted)) return;
    caches[is_active].size = wanted;
    if (is_active && now - caches[1].touched > TOUCH_SECONDS) {
        caches[1].touched = now;
        from = 0;
    }
    for (int time = 0; time <= is_active; time++)
        for (off_t at = from; at < wanted; at += CHUNK)
            if (pread(caches[is_active].file, chunk, CHUNK, at) < 0) return;
}

static void use_logs(struct line *line) {
    static double written;
    static unsigned seed = 1;
    char text[LINE_ON_DISK - KEEPERS_PREFIX];
    struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
    for (double wanted = amount(line); written + LINE_ON_DISK <= wanted; written += LINE_ON_DISK) {
        for (size_t i = 0; i + 1 < sizeof text; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = ' ' + 1 + (i % PHRASE < NEWS ? (seed >> 16) % 90 : i % 90);
        }
        text[sizeof text - 1] = '\n';
        if (poll(&out, 1, 0) <= 0 || write(STDOUT_FILENO, text, sizeof text) != (ssize_t)sizeof text) return;
    }
}

/* -- all of it */

static void on_term(int signal_) {
    (void)signal_;
    asked_to_stop = 1;
}

static void play(struct memory *memory) {
    for (int i = 0; i < line_count; i++) {
        struct line *line = &lines[i];
        if (!strcmp(line->measure, "memory")) use_memory(memory, amount(line));
        else if (!strcmp(line->measure, "cpu")) use_cpu(line);
        else if (!strcmp(line->measure, "pids")) use_processes(line);
        else if (!strcmp(line->measure, "file")) use_disk(line, i);
        else if (!strcmp(line->measure, "inodes")) use_inodes(line);
        else if (!strcmp(line->measure, "logs")) use_logs(line);
        else if (!strcmp(line->measure, "active")) use_cache(line, 1);
        else if (!strcmp(line->measure, "inactive")) use_cache(line, 0);
    }
}

int main(int argc, char **argv) {
    struct timespec tick = {0, TICK_NANOS};
    struct memory memory = {0};
    double stop_at = -1;
    if (argc != 2) {
        fprintf(stderr, "usage: player PLAN\n");
        return 2;
    }
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    signal(SIGTERM, on_term);
    signal(SIGCHLD, SIG_IGN);
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_BYTES);
    read_plan(argv[1]);
    while (clock_of(CLOCK_REALTIME) < origin && !asked_to_stop) nanosleep(&tick, NULL);
    began = clock_of(CLOCK_MONOTONIC);
    if (line_of("child")) play_child(line_of("child"));
    if (line_of("memory")) reserve(&memory, line_of("memory")->most);
    for (;; nanosleep(&tick, NULL)) {
        double now = clock_of(CLOCK_MONOTONIC);
        if (asked_to_stop && stop_at < 0) stop_at = now + stop_after;
        if (stop_at >= 0 && now >= stop_at) return stop_code;
        if (end_after >= 0 && now - began >= end_after) return end_code;
        play(&memory);
    }
}
