#include "engine/check/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"

static void put(wk_json *json, const char *bytes, size_t size) {
	if (json->size + size > json->capacity) {
		size_t capacity = json->capacity * 2 > json->size + size ? json->capacity * 2 : json->size + size + 256;
		char *grown = realloc(json->bytes, capacity);
		if (grown == NULL) {
			json->failed = true;
			return;
		}
		json->bytes = grown;
		json->capacity = capacity;
	}
	memcpy(json->bytes + json->size, bytes, size);
	json->size += size;
}

static void put_string(wk_json *json, const char *string) {
	put(json, string, strlen(string));
}

/* The comma and the key before a value. */
static void put_key(wk_json *json, const char *key) {
	char last = json->size > 0 ? json->bytes[json->size - 1] : '{';
	if (last != '{' && last != '[')
		put_string(json, ",");
	if (key != NULL) {
		put_string(json, "\"");
		put_string(json, key);
		put_string(json, "\":");
	}
}

void wk_json_begin(wk_json *json) {
	json->size = 0;
	json->failed = false;
	put_string(json, "{");
}

void wk_json_integer(wk_json *json, const char *key, int64_t value) {
	char digits[24];
	snprintf(digits, sizeof digits, "%" PRId64, value);
	put_key(json, key);
	put_string(json, digits);
}

void wk_json_unsigned(wk_json *json, const char *key, uint64_t value) {
	char digits[24];
	snprintf(digits, sizeof digits, "%" PRIu64, value);
	put_key(json, key);
	put_string(json, digits);
}

void wk_json_boolean(wk_json *json, const char *key, bool value) {
	put_key(json, key);
	put_string(json, value ? "true" : "false");
}

void wk_json_string(wk_json *json, const char *key, const char *value) {
	wk_json_text(json, key, value, strlen(value));
}

void wk_json_text(wk_json *json, const char *key, const char *bytes, size_t size) {
	put_key(json, key);
	put_string(json, "\"");
	for (size_t at = 0; at < size;) {
		unsigned char byte = (unsigned char)bytes[at];
		size_t length = wk_utf8_character_size(bytes + at, size - at);
		if (byte == '"' || byte == '\\') {
			put_string(json, "\\");
			put(json, bytes + at, 1);
		} else if (byte < 0x20 || byte == 0x7F) {
			char escape[8];
			snprintf(escape, sizeof escape, "\\u%04x", byte);
			put_string(json, escape);
		} else if (length == 0) {
			put_string(json, "\\ufffd");
		} else {
			put(json, bytes + at, length);
		}
		at += length > 0 ? length : 1;
	}
	put_string(json, "\"");
}

void wk_json_hex(wk_json *json, const char *key, const uint8_t *bytes, size_t size) {
	put_key(json, key);
	put_string(json, "\"");
	for (size_t i = 0; i < size; i++) {
		char digits[3];
		snprintf(digits, sizeof digits, "%02x", bytes[i]);
		put(json, digits, 2);
	}
	put_string(json, "\"");
}

void wk_json_open(wk_json *json, const char *key, char bracket) {
	put_key(json, key);
	put(json, &bracket, 1);
}

void wk_json_close(wk_json *json, char bracket) {
	put(json, &bracket, 1);
}

const char *wk_json_line(wk_json *json) {
	put(json, "}", 2); /* with its NUL */
	return json->failed ? NULL : json->bytes;
}

void wk_json_free(wk_json *json) {
	free(json->bytes);
	*json = (wk_json){0};
}
