/* base_os.c - tests of whole files, folders and programs, and of all of them under faults. */
#include "tests/fault.h"
#include "tests/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Env env;
static TempDir dir;
static Buf out;
static Err err;

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
    buf_init(&out, &env.model);
    err = (Err){.code = E_OK};
}

static void stop(void)
{
    temp_remove(&dir);
    env_release(&env);
}

TestSuite(base_os, .init = start, .fini = stop);

/* ---- files ---- */

Test(base_os, a_written_file_reads_back_with_its_nuls)
{
    static const char text[] = "one\0two\n";
    const char *path = temp_path(&dir, "a file's \"name\"\n-?#%\u00e9");
    char *got;
    size_t len;
    cr_assert(os_write_file(path, text, sizeof text - 1, &err), "%s", err.text);
    cr_assert(os_read_file(&env.model, path, 100, &got, &len, &err), "%s", err.text);
    cr_assert_eq(len, sizeof text - 1);
    cr_assert(memcmp(got, text, sizeof text) == 0);
    cr_assert_eq(folder_entries(dir.path), 1);
}

Test(base_os, a_large_file_survives_the_chunks)
{
    enum { N = 300001 };
    char *big = arena_alloc(&env.model, N), *got;
    size_t len;
    for (int i = 0; i < N; i++) {
        big[i] = (char)(i * 7 + i / 251);
    }
    const char *path = temp_path(&dir, "big");
    cr_assert(os_write_file(path, big, N, &err));
    cr_assert(os_read_file(&env.model, path, N, &got, &len, &err));
    cr_assert(len == N && memcmp(got, big, N) == 0 && got[N] == 0);
    cr_assert_not(os_read_file(&env.model, path, N - 1, &got, &len, &err));
    cr_assert(strstr(err.text, "larger than the limit of 300000 bytes"));
}

Test(base_os, what_cannot_be_read_says_why)
{
    char *text;
    size_t len;
    cr_assert_not(os_read_file(&env.model, temp_path(&dir, "absent"), 9, &text, &len, &err));
    cr_assert_eq(err.code, E_IO);
    cr_assert(strstr(err.text, "absent: No such file or directory."));
    cr_assert_not(os_read_file(&env.model, dir.path, 9, &text, &len, &err));
    cr_assert(strstr(err.text, dir.path) && strstr(err.text, "Is a directory"));
}

Test(base_os, a_pipe_is_read_to_its_end)
{
    int fd[2];
    char path[32], *text;
    size_t len;
    cr_assert_eq(pipe(fd), 0);
    cr_assert_eq(write(fd[1], "through", 7), 7);
    close(fd[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
    cr_assert(os_read_file(&env.model, path, 100, &text, &len, &err), "%s", err.text);
    cr_assert_str_eq(text, "through");
    close(fd[0]);
}

Test(base_os, a_failed_write_leaves_the_old_file)
{
    const char *path = temp_path(&dir, "kept");
    static const char *const calls[] = {"open", "write", "fsync", "close", "rename"};
    write_text(path, "old");
    for (size_t i = 0; i < countof(calls); i++) {
        fault_arm(calls[i], 1, true, ENOSPC);
        bool ok = os_write_file(path, "new", 3, &err);
        fault_disarm();
        cr_assert_not(ok, "%s", calls[i]);
        cr_assert(strstr(err.text, "kept: No space left on device."), "%s", err.text);
        cr_assert_str_eq(read_text(&env, path), "old");
        cr_assert_eq(folder_entries(dir.path), 1, "%s left its temporary file", calls[i]);
    }
    cr_assert(os_write_file(path, "new", 3, &err));
    cr_assert_str_eq(read_text(&env, path), "new");
}

Test(base_os, a_stale_temporary_file_is_no_obstacle_and_is_kept)
{
    const char *path = temp_path(&dir, "new");
    const char *stale = arena_printf(&env.model, "%s.%ld-0.tmp", path, (long)getpid());
    write_text(stale, "somebody's");
    cr_assert(os_write_file(path, "text", 4, &err), "%s", err.text);
    cr_assert_str_eq(read_text(&env, path), "text");
    cr_assert_str_eq(read_text(&env, stale), "somebody's");
}

Test(base_os, interrupted_calls_are_repeated)
{
    const char *path = temp_path(&dir, "again");
    static const char *const calls[] = {"open", "write", "read"};
    for (size_t i = 0; i < countof(calls); i++) {
        fault_arm(calls[i], 1, false, EINTR);
        char *text;
        size_t len;
        bool ok = os_write_file(path, "text", 4, &err) &&
                  os_read_file(&env.model, path, 9, &text, &len, &err);
        int hits = fault_hits();
        fault_disarm();
        cr_assert(ok, "%s: %s", calls[i], err.text);
        cr_assert_eq(hits, 1);
        cr_assert_str_eq(text, "text");
    }
}

Test(base_os, what_is_no_regular_file_is_written_not_replaced)
{
    const char *path = temp_path(&dir, "fifo");
    struct stat st;
    char got[2] = "";
    cr_assert_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_NONBLOCK);
    cr_assert(os_write_file(path, "x", 1, &err), "%s", err.text);
    cr_assert(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    cr_assert(read(fd, got, 1) == 1 && got[0] == 'x');
    close(fd);
    cr_assert_not(os_write_file(dir.path, "x", 1, &err));
    cr_assert(strstr(err.text, "Is a directory"));
}

Test(base_os, mkdirs_makes_all_levels_and_is_content_with_old_ones)
{
    const char *deep = temp_path(&dir, "a//b/c d/");
    cr_assert(os_mkdirs(deep, &err), "%s", err.text);
    cr_assert(os_mkdirs(deep, &err), "%s", err.text);
    cr_assert_eq(folder_entries(temp_path(&dir, "a/b/c d")), 0);
    cr_assert(os_mkdirs("/", &err) && os_mkdirs("/tmp", &err));
    write_text(temp_path(&dir, "file"), "");
    cr_assert_not(os_mkdirs(temp_path(&dir, "file/x"), &err));
    cr_assert(strstr(err.text, "Not a directory"));
    cr_assert_not(os_mkdirs("", &err));
}

Test(base_os, the_clock_goes_forward)
{
    uint64_t before = os_now_ns();
    cr_assert_geq(os_now_ns(), before);
    cr_assert_gt(before, 0);
}

/* ---- programs ---- */

static bool no_children(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static bool shell(const char *script, int timeout_ms, size_t max_bytes, int *status)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    buf_clear(&out);
    return os_run(argv, NULL, timeout_ms, max_bytes, &out, status, &err);
}

Test(base_os, a_program_gives_its_output_and_status)
{
    int status, before = open_descriptors();
    cr_assert(shell("echo out; echo err >&2; exit 3", 20000, 1000, &status), "%s", err.text);
    cr_assert_str_eq(out.at, "out\nerr\n");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    cr_assert(shell("kill -9 $$", 20000, 1000, &status));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_assert(no_children());
    cr_assert_eq(open_descriptors(), before);
}

Test(base_os, the_last_bytes_of_output_are_kept)
{
    int status;
    cr_assert(shell("printf 0123456789; printf abcdef", 20000, 6, &status));
    cr_assert_str_eq(out.at, "abcdef");
    cr_assert(shell("printf 0123456789", 20000, 7, &status));
    cr_assert_str_eq(out.at, "3456789");
    cr_assert(shell("printf 0123456789", 20000, 10, &status));
    cr_assert_str_eq(out.at, "0123456789");
    cr_assert(
        shell("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done", 20000, 12, &status));
    cr_assert_str_eq(out.at, "19998\n19999\n");
}

Test(base_os, a_missing_program_is_named)
{
    char *argv[] = {"no-such-program", NULL};
    int status, before = open_descriptors();
    cr_assert_not(os_run(argv, NULL, 1000, 100, &out, &status, &err));
    cr_assert_str_eq(err.text, "Cannot run no-such-program: No such file or directory.");
    cr_assert_eq(open_descriptors(), before);
    cr_assert(no_children());
}

Test(base_os, a_program_past_its_deadline_is_stopped)
{
    int status, before = open_descriptors();
    cr_assert_not(shell("echo begun; sleep 60", 300, 100, &status));
    cr_assert_str_eq(err.text, "sh did not finish within 300 ms and was stopped.");
    cr_assert_str_eq(out.at, "begun\n");
    cr_assert_not(shell("exec >/dev/null 2>&1; sleep 60", 300, 100, &status));
    cr_assert(no_children());
    cr_assert_eq(open_descriptors(), before);
}

/* The background process holds a pipe open until it ends. */
Test(base_os, the_children_of_a_stopped_program_end_too)
{
    int status;
    const char *path = temp_path(&dir, "held");
    cr_assert_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    cr_assert_not(
        shell(arena_printf(&env.model, "sleep 60 >'%s' & sleep 60", path), 300, 100, &status));
    struct pollfd held = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&held, 1, 20000), 1);
    cr_assert(held.revents & POLLHUP);
    close(fd);
}

Test(base_os, a_child_gets_a_clean_start)
{
    int status;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    int fd = os.open("/dev/null", O_RDONLY, 0);
    char *script = arena_printf(&env.model,
                                "cat; echo $X$HOME; [ -e /proc/$$/fd/%d ] && echo %d is "
                                "open; kill $$",
                                fd, fd);
    char *argv[] = {"/bin/sh", "-c", script, NULL}, *envp[] = {"X=only", NULL};
    cr_assert(os_run(argv, envp, 20000, 100, &out, &status, &err), "%s", err.text);
    cr_assert_str_eq(out.at, "only\n");
    os.close(fd);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* ---- everything under faults ---- */

typedef struct Work {
    bool ok;
    Err err;
} Work;

static bool write_and_read(Env *e, char **text, Err *why)
{
    size_t len;
    const char *path = temp_path(&dir, "x/y/file");
    return os_mkdirs(temp_path(&dir, "x/y"), why) && os_write_file(path, "12345", 5, why) &&
           os_read_file(&e->model, path, 100, text, &len, why);
}

static void files_and_programs(Env *e, void *arg)
{
    Work *w = arg;
    char *text, *argv[] = {"sh", "-c", "echo hello", NULL};
    int status;
    Buf said;
    buf_init(&said, &e->model);
    w->ok = write_and_read(e, &text, &w->err);
    if (w->ok) {
        cr_assert_str_eq(text, "12345");
        w->ok = os_run(argv, NULL, 20000, 6, &said, &status, &w->err);
    }
    if (w->ok) {
        cr_assert_str_eq(said.at, "hello\n");
    }
}

static bool in_a_new_env(void *ctx, Err *why)
{
    (void)ctx;
    Env e;
    Work w = {.ok = false};
    env_init(&e);
    bool returned = env_try(&e, files_and_programs, &w);
    *why = returned ? w.err : e.err;
    env_release(&e);
    return returned && w.ok;
}

Test(base_os, any_failing_call_is_reported_and_leaves_nothing_open)
{
    static const char *const calls[] = {"open",   "close",         "read", "write", "fsync",
                                        "rename", "mkdir",         "stat", "pipe",  "poll",
                                        "spawn",  "clock_gettime", "alloc"};
    static const int least[] = {4, 8, 8, 2, 2, 2, 4, 2, 2, 2, 2, 2, 2};
    for (size_t i = 0; i < countof(calls); i++) {
        int runs = fault_loop(calls[i], in_a_new_env, NULL);
        cr_assert_geq(runs, least[i], "%s: %d runs", calls[i], runs);
        cr_assert(no_children(), "%s left a child", calls[i]);
    }
}

Test(base_os, counting_calls_changes_nothing)
{
    fault_arm("open", 0, true, EIO);
    cr_assert(in_a_new_env(NULL, &err), "%s", err.text);
    cr_assert_eq(fault_calls("open"), 2);
    cr_assert_eq(fault_calls("spawn"), 1);
    cr_assert_eq(fault_calls("rename"), 1);
    cr_assert_eq(fault_hits(), 0);
    fault_disarm();
}
