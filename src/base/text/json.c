#include "base/text/json.h"

#include "base/text/number.h"

json_t *gd__json_read(const char *text, size_t length, json_error_t *error)
{
    locale_t before = gd__c_locale_begin();
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, error);
    gd__c_locale_end(before);
    return value;
}

char *gd__json_write(const json_t *value, char *out, size_t size)
{
    locale_t before = gd__c_locale_begin();
    size_t length = json_dumpb(value, out, size - 1, JSON_ENCODE_ANY);
    gd__c_locale_end(before);
    out[length < size ? length : size - 1] = 0;
    return out;
}
