/* dtype.c - the element types, expanded from the DTYPES list. */
#include "base/base.h"

#include <string.h>

typedef struct DtypeInfo {
    const char *name, *ctype;
    int bytes;
    DtypeClass class;
} DtypeInfo;

static const DtypeInfo info[N_DTYPES] = {
#define X(id, name, bytes, ctype, class) {name, ctype, bytes, CLASS_##class},
    DTYPES(X)
#undef X
};

const char *dtype_name(Dtype t)
{
    return info[t].name;
}

const char *dtype_ctype(Dtype t)
{
    return info[t].ctype;
}

int dtype_bytes(Dtype t)
{
    return info[t].bytes;
}

DtypeClass dtype_class(Dtype t)
{
    return info[t].class;
}

bool dtype_numeric(Dtype t)
{
    return info[t].class != CLASS_BOOL;
}

bool dtype_parse(const char *s, size_t len, Dtype *t)
{
    for (int i = 0; i < N_DTYPES; i++) {
        if (strlen(info[i].name) == len && memcmp(info[i].name, s, len) == 0) {
            *t = (Dtype)i;
            return true;
        }
    }
    return false;
}
