/* run_npy.c - .npy files: what NumPy writes is read, what is written NumPy reads (its header is
 * compared byte for byte), everything else is refused with its reason. */
#include "run/run.h"
#include "tests/fault.h"
#include "tests/helpers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static Env e;
static TempDir dir;
static const char *path;

static void setup(void)
{
    env_init(&e);
    dir = temp_dir();
    path = arena_printf(&e.model, "%s/t.npy", dir.path);
}

static void teardown(void)
{
    env_release(&e);
    temp_remove(&dir);
}

TestSuite(run_npy, .init = setup, .fini = teardown);

static void read_it(Env *env, void *tensor)
{
    *(Tensor *)tensor = npy_read(env, &env->model, path);
}

static void write_it(Tensor t)
{
    Err err;
    cr_assert(npy_write(path, t, &err), "%s", err.text);
}

static void write_bytes(const char *p, size_t len)
{
    Err err;
    cr_assert(os_write_file(path, p, len, &err), "%s", err.text);
}

/* A version 1 file with this header text and this many bytes of elements, all 1. */
static void write_npy(const char *header, size_t n_bytes)
{
    Buf b;
    buf_init(&b, &e.model);
    size_t len = strlen(header);
    buf_bytes(&b, "\x93NUMPY\x01\x00", 8);
    buf_char(&b, (char)(len & 0xff));
    buf_char(&b, (char)(len >> 8));
    buf_str(&b, header);
    for (size_t i = 0; i < n_bytes; i++) {
        buf_char(&b, 1);
    }
    write_bytes(b.at, b.len);
}

static void assert_refused(ErrCode code, const char *words)
{
    Tensor t;
    must_fail(&e, read_it, &t, code, words);
    cr_assert(strstr(e.err.text, path), "the path is not in: %s", e.err.text);
}

/* ---- round trips ------------------------------------------------------------------------ */

Test(run_npy, every_dtype_and_rank_comes_back)
{
    static const int64_t dim[MAX_RANK] = {2, 1, 3, 1, 2, 1, 1, 2};
    for (int t = 0; t < N_DTYPES; t++) {
        for (int rank = 0; rank <= MAX_RANK; rank++) {
            Tensor a = tensor_new(&e, &e.model, (Dtype)t, rank, dim), b = {0};
            for (int64_t i = 0; i < tensor_count(&a); i++) {
                Value v = t == DT_F32 ? (Value){.f = (float)i / 3}
                                      : (Value){.i = t == DT_BOOL ? i % 2 : i - 3};
                value_store(a.data, a.dtype, i, v);
            }
            write_it(a);
            must_work(&e, read_it, &b);
            cr_assert(b.dtype == a.dtype && b.rank == rank);
            cr_assert_eq(memcmp(a.dim, b.dim, sizeof *dim * (size_t)rank), 0);
            cr_assert_eq(
                memcmp(a.data, b.data, (size_t)(tensor_count(&a) * dtype_bytes(a.dtype))), 0);
            cr_assert_eq((uintptr_t)b.data % 8, 0);
        }
    }
}

Test(run_npy, empty_tensor_comes_back)
{
    Tensor t = {DT_I64, 3, {4, 0, 2}, NULL}, back = {0};
    write_it(t);
    must_work(&e, read_it, &back);
    cr_assert(back.rank == 3 && back.dim[0] == 4 && back.dim[1] == 0 && back.dim[2] == 2);
}

/* What numpy.save writes for this array, to the last byte. */
Test(run_npy, file_is_what_numpy_writes)
{
    float data[] = {1, 2, 3, 4, 5, 6};
    write_it((Tensor){DT_F32, 2, {2, 3}, data});
    char want[128 + sizeof data];
    memset(want, ' ', 128);
    memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
    const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    memcpy(want + 10, header, sizeof header - 1);
    want[127] = '\n';
    memcpy(want + 128, data, sizeof data);
    char *text;
    size_t len;
    cr_assert(os_read_file(&e.model, path, 1 << 20, &text, &len, NULL));
    cr_assert_eq(len, sizeof want);
    cr_assert_arr_eq(text, want, sizeof want);
}

Test(run_npy, header_of_one_axis_has_the_comma_of_a_tuple)
{
    uint8_t data[] = {1, 0, 1};
    write_it((Tensor){DT_BOOL, 1, {3}, data});
    const char *text = read_text(&e, path);
    cr_assert(strstr(text + 10, "'descr': '|b1', 'fortran_order': False, 'shape': (3,), }"));
    write_it((Tensor){DT_BOOL, 0, {0}, data});
    cr_assert(strstr(read_text(&e, path) + 10, "'shape': (), }"));
}

/* ---- what is read ----------------------------------------------------------------------- */

Test(run_npy, order_of_keys_quotes_and_blanks_do_not_matter)
{
    Tensor t;
    write_npy("{ \"shape\" :( 2 ,1 ) , 'fortran_order':False,'descr':\"|i1\"}\n", 2);
    must_work(&e, read_it, &t);
    cr_assert(t.dtype == DT_I8 && t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 1);
    cr_assert_eq(((int8_t *)t.data)[1], 1);
}

Test(run_npy, version_2_has_a_longer_length)
{
    Tensor t;
    static const char file[] = "\x93NUMPY\x02\x00\x3a\x00\x00\x00"
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n"
                               "\x07\x00\x00\x00";
    write_bytes(file, sizeof file - 1);
    must_work(&e, read_it, &t);
    cr_assert(t.dtype == DT_I32 && ((int32_t *)t.data)[0] == 7);
}

/* ---- what is refused -------------------------------------------------------------------- */

typedef struct Refusal {
    const char *header;
    size_t n_bytes;
    ErrCode code;
    const char *words;
} Refusal;

#define HEAD "{'descr': '<f4', 'fortran_order': False, "
static const Refusal refusals[] = {
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, E_TYPE,
     "elements of type \">f4\""},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8, E_TYPE,
     "elements of type \"<f8\""},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, E_TYPE,
     "holds records"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4, E_TYPE, "in Fortran order"},
    {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4, E_SYNTAX,
     "neither True nor False"},
    {HEAD "'shape': (2,)}", 4, E_SYNTAX, "asks for 8 bytes of elements, but it holds 4"},
    {HEAD "'shape': (1,)}", 8, E_SYNTAX, "asks for 4 bytes of elements, but it holds 8"},
    {HEAD "'shape': (-1,)}", 4, E_SYNTAX, "something that is no size"},
    {HEAD "'shape': (x,)}", 4, E_SYNTAX, "something that is no size"},
    {HEAD "'shape': 3}", 4, E_SYNTAX, "its shape is no tuple"},
    {HEAD "'shape': (3 4)}", 4, E_SYNTAX, "its shape is not closed"},
    {HEAD "'shape': (1", 4, E_SYNTAX, "its shape is not closed"},
    {HEAD "'shape': (99999999999999999999,)}", 4, E_SYNTAX, "something that is no size"},
    {HEAD "'shape': (4294967296, 4294967296)}", 4, E_SYNTAX, "its shape is too large"},
    {HEAD "'shape': (0, 9223372036854775807, 9)}", 0, E_SYNTAX, "its shape is too large"},
    {HEAD "'shape': (1,1,1,1,1,1,1,1,1)}", 4, E_SHAPE, "more than 8 axes"},
    {HEAD "}", 4, E_SYNTAX, "lacks descr, fortran_order or shape"},
    {HEAD "'shape': (1,), 'color': 'red'}", 4, E_SYNTAX, "an unknown key"},
    {HEAD "'shape': (1,)} import os", 4, E_SYNTAX, "something follows the dict"},
    {HEAD "'shape': (1,)", 4, E_SYNTAX, "its header is not closed"},
    {"{'descr': '<f4", 4, E_SYNTAX, "no string where one is due"},
    {"{'descr' '<f4'}", 4, E_SYNTAX, "a key of its header has no value"},
    {"[1]", 4, E_SYNTAX, "its header is no dict"},
    {"", 4, E_SYNTAX, "its header is no dict"},
};

Test(run_npy, malformed_files_are_refused_with_their_reason)
{
    for (size_t i = 0; i < countof(refusals); i++) {
        const Refusal *r = &refusals[i];
        write_npy(r->header, r->n_bytes);
        assert_refused(r->code, r->words);
    }
}

Test(run_npy, bool_that_is_neither_0_nor_1_is_refused)
{
    static const char file[] = "\x93NUMPY\x01\x00\x39\x00"
                               "{'descr': '|b1', 'fortran_order': False, 'shape': (2,),}\n"
                               "\x01\x02";
    write_bytes(file, sizeof file - 1);
    assert_refused(E_SYNTAX, "neither 0 nor 1");
}

Test(run_npy, other_files_are_refused)
{
    static const char archive[] = "PK\x03\x04 as numpy.savez writes it",
                      later[] = "\x93NUMPY\x04\x00 and so on";
    static const char liar[] = "\x93NUMPY\x01\x00\xff\xff{";
    write_bytes(archive, sizeof archive - 1);
    assert_refused(E_SYNTAX, "it does not begin as one");
    write_bytes(later, sizeof later - 1);
    assert_refused(E_SYNTAX, "its version is not 1, 2 or 3");
    write_bytes(liar, sizeof liar - 1);
    assert_refused(E_SYNTAX, "its header is longer than the file");
}

Test(run_npy, file_cut_anywhere_is_refused)
{
    int64_t data[] = {1, 2};
    write_it((Tensor){DT_I64, 1, {2}, data});
    char *whole;
    size_t len;
    cr_assert(os_read_file(&e.model, path, 1 << 20, &whole, &len, NULL));
    cr_assert_eq(len, 128 + 16);
    for (size_t n = 0; n < len; n++) {
        Tensor t;
        write_bytes(whole, n);
        cr_assert_not(env_try(&e, read_it, &t), "%zu bytes were enough", n);
        cr_assert_eq(e.err.code, E_SYNTAX);
    }
}

Test(run_npy, file_with_any_byte_changed_is_read_or_refused)
{
    int64_t data[] = {1, 2};
    write_it((Tensor){DT_I64, 1, {2}, data});
    char *whole;
    size_t len;
    cr_assert(os_read_file(&e.model, path, 1 << 20, &whole, &len, NULL));
    for (size_t i = 0; i < 72; i++) {
        for (int bit = 0; bit < 8; bit++) {
            Tensor t;
            whole[i] ^= (char)(1 << bit);
            write_bytes(whole, len);
            if (env_try(&e, read_it, &t)) {
                cr_assert_leq(tensor_count(&t) * dtype_bytes(t.dtype), (int64_t)len);
            }
            whole[i] ^= (char)(1 << bit);
        }
    }
}

Test(run_npy, absent_file_and_unwritable_place_are_errors)
{
    assert_refused(E_IO, "No such file or directory");
    Err err;
    float x = 1;
    cr_assert_not(npy_write("/no-such-folder/x.npy", (Tensor){DT_F32, 0, {0}, &x}, &err));
    cr_assert(err.code == E_IO && strstr(err.text, "/no-such-folder/x.npy"), "%s", err.text);
}

static bool write_and_read(void *ctx, Err *err)
{
    (void)ctx;
    float data[] = {1, 2, 3};
    Tensor t;
    if (!npy_write(path, (Tensor){DT_F32, 1, {3}, data}, err)) {
        return false;
    }
    bool ok = env_try(&e, read_it, &t);
    *err = ok ? *err : e.err;
    return ok;
}

Test(run_npy, failing_calls_are_errors)
{
    static const char *const calls[] = {"open", "read", "write", "rename", "alloc"};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_assert_geq(fault_loop(calls[i], write_and_read, NULL), 1, "%s", calls[i]);
    }
    cr_assert_eq(folder_entries(dir.path), 1);
}
