/* db_cli.c - schedb as its user meets it: usage, exit statuses, formats, output files; and this
 * machine as a row of the database. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    start();
    tell_at(&env, path, NULL);
    setenv("NANOCOMPILE_DB", path, 1);
}

TestSuite(db_cli, .init = begin, .fini = stop, .timeout = 120);

Test(db_cli, usage)
{
    static const char *const commands[] = {"init",   "verify", "merge", "export",
                                           "import", "vacuum", "sql"};
    Ran help = SCHEDB(&env, "--help");
    for (size_t i = 0; i < countof(commands); i++) {
        shows(help, arena_printf(&env.model, "\n  %s ", commands[i]));
        shows(SCHEDB(&env, commands[i], "--help"), "--db=FILE");
    }
    shows(SCHEDB(&env, "--version"), "schedb " NC_VERSION);
    has(SCHEDB(&env, NULL), 2, "Usage: schedb COMMAND");
    refused(SCHEDB(&env, "mend"), 2, "there is no command 'mend'");
    refused(SCHEDB(&env, "merge", "a.db"), 2, "say INTO FROM");
    refused(SCHEDB(&env, "verify", "a.db"), 2, "'a.db' is one word too many");
    refused(SCHEDB(&env, "export", "--run", "x"), 2, "--run takes an id, not 'x'");
    refused(SCHEDB(&env, "verify", "--frob"), 2, "unrecognized option");
}

Test(db_cli, a_query_in_four_formats)
{
    const char *sql = "SELECT idx AS n, status, why, 0.5 AS half, 'a|b,\"c\"' AS word FROM "
                      "trial WHERE idx < 2";
    Ran r = SCHEDB(&env, "sql", sql);
    shows(r, "n  status  why                half  word\n0  ok                          0.5  "
             "a|b,\"c\"\n"
             "1  wrong   element 3 differs   0.5  a|b,\"c\"\n");
    r = SCHEDB(&env, "sql", sql, "--format", "md");
    shows(r, "|  1 | wrong  | element 3 differs |  0.5 | a\\|b,\"c\" |\n");
    shows(r, "\n| -: | ------ | ");
    shows(SCHEDB(&env, "sql", "SELECT * FROM process"), "flipped"); /* many columns */
    r = SCHEDB(&env, "sql", sql, "--format", "csv");
    shows(r, "n,status,why,half,word\n0,ok,,0.5,\"a|b,\"\"c\"\"\"\n");
    r = SCHEDB(&env, "sql", sql, "--format", "json");
    json_error_t why;
    json_t *root = json_loads(r.out, 0, &why);
    cr_assert(root, "%s in %s", why.text, r.out);
    const json_t *row = json_array_get(json_object_get(root, "rows"), 0);
    cr_expect(json_is_null(json_object_get(row, "why")));
    cr_expect_eq(json_real_value(json_object_get(row, "half")), 0.5);
    cr_expect_str_eq(json_string_value(json_object_get(row, "word")), "a|b,\"c\"");
    json_decref(root);
    refused(SCHEDB(&env, "sql", sql, "--format", "tex"), 1, "not as 'tex'");
    refused(SCHEDB(&env, "sql", "DROP TABLE trial"), 1, "the statement would change it");
    refused(SCHEDB(&env, "sql", "ATTACH 'x.db' AS x"), 1, "not authorized");
}

Test(db_cli, output_is_whole_or_absent)
{
    const char *out = arena_str(&env.model, temp_path(&dir, "out"));
    int before = folder_entries(dir.path);
    refused(SCHEDB(&env, "sql", "SELECT abs(-9223372036854775808)", "-o", out), 1,
            "integer overflow");
    refused(SCHEDB(&env, "export", "--format", "xml", "-o", out), 1, "not as 'xml'");
    refused(SCHEDB(&env, "export", "--format", "t4", "--run", "77", "-o", out), 1,
            "has no run 77");
    cr_expect_eq(folder_entries(dir.path), before);
    refused(SCHEDB(&env, "export", "-o", "/nowhere/out"), 1,
            "/nowhere/out cannot be written: No such");
    shows(SCHEDB(&env, "export", "-o", out), "");
    cr_expect_eq(folder_entries(dir.path), before + 1);
    refused(run_by_shell(&env, "schedb", "exec \"$0\" export --format json >/dev/full", NULL),
            1, "Standard output cannot be written");
}

Test(db_cli, what_is_no_file_is_written_to_and_not_replaced)
{
    shows(SCHEDB(&env, "sql", "SELECT 6 * 7 AS product", "-o", "/dev/stdout"), "42");
    const char *link = arena_str(&env.model, temp_path(&dir, "link"));
    cr_assert_eq(symlink("/dev/stdout", link), 0);
    shows(SCHEDB(&env, "sql", "SELECT 6 * 7 AS product", "-o", link), "42");
    struct stat st;
    cr_expect(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
}

Test(db_cli, vacuum_gives_space_back)
{
    struct stat before, after;
    set_sql(
        path,
        "CREATE TABLE junk (x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c "
        "WHERE i < 2000) INSERT INTO junk SELECT zeroblob(1000) FROM c; DROP TABLE junk");
    cr_assert_eq(stat(path, &before), 0);
    shows(SCHEDB(&env, "vacuum"), "as small as it can be");
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_lt(after.st_size, before.st_size / 2);
    shows(SCHEDB(&env, "verify"), "is sound");
}

/* ---- this machine ---- */

static void made_up(const char *name, const char *text)
{
    write_text(arena_printf(&env.model, "%s/%s", dir.path, name), text);
}

Test(db_cli, this_machine_as_a_row)
{
    Machine m;
    DbMachine row;
    Buf isa;
    buf_init(&isa, &env.model);
    made_up("proc/cpuinfo",
            "processor\t: 0\nmicrocode\t: 0xb002032\nflags\t\t: fpu hypervisor avx\n");
    made_up("proc/sys/kernel/osrelease", "6.1.0-test\n");
    made_up("proc/sys/kernel/hostname", "bench\n");
    made_up("proc/sys/kernel/randomize_va_space", "2\n");
    made_up("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    made_up("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    made_up("sys/devices/system/cpu/smt/active", "1\n");
    made_up("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    made_up("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    made_up("sys/class/dmi/id/sys_vendor", "QEMU\n");
    machine_read(&env, dir.path, &m);
    db_machine_here(&env, &env.model, dir.path, &m, &row);
    machine_isa(&m, &isa);
    cr_expect_str_eq(row.isa, isa.at);
    cr_expect_eq(row.n_cores, m.n_threads);
    cr_expect_str_eq(row.microcode, "0xb002032");
    cr_expect_str_eq(row.kernel_release, "6.1.0-test");
    cr_expect_str_eq(row.host, "bench");
    cr_expect_eq(row.aslr, 2);
    cr_expect_str_eq(row.governor, "powersave");
    cr_expect_eq(row.turbo, 0);
    cr_expect_eq(row.smt, 1);
    cr_expect_str_eq(row.thp, "madvise");
    cr_expect_str_eq(row.clocksource, "tsc");
    cr_expect_str_eq(row.hypervisor, "QEMU");
}

/* A machine that tells nothing has no soft facts, and is still recorded. */
Test(db_cli, a_machine_without_files)
{
    Machine m;
    DbMachine row;
    const char *nothing = arena_str(&env.model, temp_path(&dir, "nothing"));
    machine_read(&env, nothing, &m);
    db_machine_here(&env, &env.model, nothing, &m, &row);
    cr_expect_null(row.microcode);
    cr_expect_null(row.hypervisor);
    cr_expect_eq(row.turbo, DB_NONE);
    Db *db = open_db(&env, path, DB_WRITE);
    DbMachine again;
    int64_t id = db_put_machine(db, &row);
    cr_assert(DB_ONE(db, MACHINE, &env.model, &again, id));
    cr_expect_str_eq(again.isa, row.isa);
    cr_expect_eq(again.turbo, DB_NONE);
    db_close(db);
}
