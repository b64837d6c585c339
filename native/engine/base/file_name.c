#include "engine/base/file_name.h"

#include <stdio.h>

#include "core/footer.h"

wk_file_name wk_file_name_of(uint64_t id, uint32_t kind) {
	wk_file_name name;
	snprintf(name.text, sizeof name.text, kind == WK_FILE_JOURNAL ? "journal/%016llx.wkj" : "entries/%016llx.wke",
	         (unsigned long long)id);
	return name;
}
