/* test_utf8.c: what is a character of UTF-8 (RFC 3629), and that names are text. */
#include "core/utf8.h"
#include "manual_directory.h"

static bool valid(const char *text) {
	return wk_utf8_is_valid(text, strlen(text));
}

TEST(characters_of_every_length_are_text) {
	CHECK(valid(""));
	CHECK(valid("orders"));
	CHECK(valid("caf\xc3\xa9"));
	CHECK(valid("\xe0\xa0\x80\xe2\x82\xac\xed\x9f\xbf\xee\x80\x80"));
	CHECK(valid("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST(what_no_decoder_takes_is_not) {
	static const char *const bad[] = {
	    "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",         "caf\xe9",          "\xc3",
	    "\xc3(",        "\xe0\x9f\xbf", "\xe2\x82",         "\xe2(\xa1",        "\xe2\x82(",        "\xed\xa0\x80",
	    "\xed\xbf\xbf", "\xf0\x90\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!valid(bad[i]));
}

/* Else somebody who reads names as text could list none of them. */
TEST(names_are_text) {
	wk_io *io = disk_of(1);
	wk_namespace *ns = open_with(io, NULL);
	wk_log *log = NULL;
	wk_error error = {0};
	CHECK_EQ(wk_log_open(ns, "caf\xe9", 4, true, NULL, &log, &error), WK_INVALID);
	check_ok(wk_log_open(ns, "caf\xc3\xa9", 5, true, NULL, &log, &error), &error, "the log opens");
	CHECK_EQ(wk_log_rename(ns, "caf\xc3\xa9", 5, "\xff", 1, &error), WK_INVALID);
	wk_position at = {{1, 0, 0}, 0, -1};
	CHECK_EQ(wk_cursor_set(log, "\xe2\x82", 2, &at, &error), WK_INVALID);
	check_ok(wk_cursor_set(log, "\xe2\x82\xac", 3, &at, &error), &error, "the cursor is put");
	leave(io, ns, log, NULL);
}

int main(void) {
	RUN(characters_of_every_length_are_text);
	RUN(what_no_decoder_takes_is_not);
	RUN(names_are_text);
	return check_done();
}
