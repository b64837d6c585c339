/*
 * json.h: writes one JSON object into growing memory. Private.
 *
 * Members come in the order of the calls; a key is NULL inside an array. Running out of memory is remembered, and told
 * by wk_json_line.
 */
#ifndef WK_ENGINE_JSON_H
#define WK_ENGINE_JSON_H
#include "walkeeper/core.h"

typedef struct wk_json {
	char *bytes;
	size_t size, capacity;
	bool failed;
} wk_json;

/* A new object; what was written before is forgotten. */
void wk_json_begin(wk_json *json);
void wk_json_integer(wk_json *json, const char *key, int64_t value);
void wk_json_unsigned(wk_json *json, const char *key, uint64_t value);
void wk_json_boolean(wk_json *json, const char *key, bool value);
void wk_json_string(wk_json *json, const char *key, const char *value);
/* Any bytes: escaped where JSON asks for it, and U+FFFD for what is no UTF-8. */
void wk_json_text(wk_json *json, const char *key, const char *bytes, size_t size);
void wk_json_hex(wk_json *json, const char *key, const uint8_t *bytes, size_t size);
/* bracket: '{' or '['; closed by '}' or ']'. */
void wk_json_open(wk_json *json, const char *key, char bracket);
void wk_json_close(wk_json *json, char bracket);
/* Ends the object: NUL-terminated, good until the next wk_json_begin. NULL: no memory. */
const char *wk_json_line(wk_json *json);
void wk_json_free(wk_json *json);
#endif
