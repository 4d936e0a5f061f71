/* base_table.c - listings: what would break a format is escaped, columns line up in characters, and
 * numbers are numbers where the format knows them. */
#include "tests/env_fixture.h"
#include "tests/helpers.h"

#include <string.h>

TestSuite(base_table, .init = start, .fini = stop);

static const char *printed(Format f, const char *name, double number)
{
    static const char *const columns[] = {"name", "#n"};
    Table t;
    Buf b;
    buf_init(&b, &env.model);
    table_init(&t, &env.model, "rows", 2, columns);
    table_cell(&t, "%s", name);
    table_number(&t, number, "%g");
    table_cell(&t, "%s", "zz");
    table_number(&t, 1234, "%g");
    table_print(&t, f, &b);
    return b.at;
}

Test(base_table, text_lines_up_in_characters_and_not_in_bytes)
{
    cr_expect_str_eq(printed(FORMAT_TEXT, "größe", 5), "name      n\n"
                                                       "größe     5\n"
                                                       "zz     1234\n");
}

Test(base_table, what_would_break_a_row_is_escaped)
{
    cr_expect(strstr(printed(FORMAT_TEXT, "a\nb", 1), "a\\nb "));
    cr_expect(strstr(printed(FORMAT_MD, "a|b\nc", 1), "| a\\|b\\nc |"));
    cr_expect(strstr(printed(FORMAT_CSV, "a,\"b\"", 1), "\"a,\"\"b\"\"\",1\n"));
    cr_expect(strstr(printed(FORMAT_JSON, "a\"b\n", 1), "{\"name\": \"a\\\"b\\n\", \"n\": 1}"));
    cr_expect(strstr(printed(FORMAT_TEX, "50% of a_b & {c}\\~^<", 1),
                     "50\\% of a\\_b \\& \\{c\\}\\textbackslash{}\\textasciitilde{}"
                     "\\textasciicircum{}\\textless{} & 1 \\\\"));
}

Test(base_table, a_number_that_is_none_is_empty_and_null)
{
    cr_expect(strstr(printed(FORMAT_JSON, "x", 0.0 / 0.0), "\"n\": null"));
    cr_expect(strstr(printed(FORMAT_CSV, "x", 1.0 / 0.0), "x,\n"));
}

Test(base_table, tex_is_a_tabular_with_numbers_to_the_right)
{
    const char *t = printed(FORMAT_TEX, "x", 1);
    cr_expect(!strncmp(t, "\\begin{tabular}{lr}\n\\hline\nname & n \\\\\n\\hline\n", 46), "%s",
              t);
    cr_expect(strstr(t, "\\hline\n\\end{tabular}\n"), "%s", t);
}
