#include "core/utf8.h"

size_t wk_utf8_character_size(const char *text, size_t size) {
	const unsigned char *bytes = (const unsigned char *)text;
	unsigned char first = bytes[0];
	size_t length = first < 0x80                    ? 1
	                : first >= 0xC2 && first < 0xE0 ? 2
	                : first >= 0xE0 && first < 0xF0 ? 3
	                : first >= 0xF0 && first < 0xF5 ? 4
	                                                : 0;
	if (length > size)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((bytes[i] & 0xC0) != 0x80)
			return 0;
	bool overlong = (first == 0xE0 && bytes[1] < 0xA0) || (first == 0xF0 && bytes[1] < 0x90);
	bool surrogate = first == 0xED && bytes[1] >= 0xA0;
	bool too_high = first == 0xF4 && bytes[1] >= 0x90;
	return overlong || surrogate || too_high ? 0 : length;
}

bool wk_utf8_is_valid(const char *text, size_t size) {
	for (size_t at = 0, length; at < size; at += length)
		if ((length = wk_utf8_character_size(text + at, size - at)) == 0)
			return false;
	return true;
}
